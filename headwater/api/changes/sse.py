"""Frames of a ``text/event-stream``. Pure. https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

from typing import Final, NamedTuple

KEEP_ALIVE_S: Final = 10.0
"""At most so long is nothing sent; proxies close connections that are idle for longer."""
HEADERS: Final = {
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    "Content-Type": "text/event-stream; charset=utf-8",
}


class Frame(NamedTuple):
    """``data`` is JSON on one line; ``id`` is where a client goes on behind the event."""

    event: str
    data: bytes
    id: str

    def bytes(self) -> bytes:
        return b"".join(
            (b"id: ", self.id.encode(), b"\nevent: ", self.event.encode(), b"\ndata: ",
             self.data, b"\n\n")
        )  # fmt: skip


def keep_alive(place: str) -> bytes:
    """Moves the client's id without an event: what a filter leaves out is passed, too."""
    return f"id: {place}\n: keep-alive\n\n".encode() if place else b": keep-alive\n\n"


def retry(milliseconds: int) -> bytes:
    """How long a client waits before it connects again."""
    return f"retry: {milliseconds}\n\n".encode()
