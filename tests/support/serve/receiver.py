"""A receiver of webhooks that fails at will, and remembers what came."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from standardwebhooks.webhooks import Webhook as Verifier

SECRET: Final = "whsec_" + b64encode(bytes(range(32))).decode()
Position = tuple[int, int]


def secret_file(folder: Path) -> Path:
    """What messages are signed with."""
    secret = folder / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    secret.chmod(0o600)
    return secret


@dataclass(slots=True)
class Receiver:
    """``status`` is asked for each message, with how often it has come."""

    url: str = ""
    status: Callable[[str, dict[str, Any], int], int] = lambda *_: 204
    requests: list[tuple[str, dict[str, Any], int]] = field(default_factory=list)
    """Path, body's data and what was answered, in their order."""
    faults: list[str] = field(default_factory=list)
    ids: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each change."""

    def taken(self, path: str) -> list[dict[str, Any]]:
        return [data for at, data, status in self.requests if at == path and status == 204]


@contextmanager
def receiving() -> Iterator[Receiver]:
    state, lock, counts = Receiver(), threading.Lock(), defaultdict[str, int](int)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            if len(body := self.rfile.read(length)) < length:
                return  # who sent it was killed: no message
            try:
                data = Verifier(SECRET).verify(body, dict(self.headers))["data"]
            except Exception as error:
                state.faults.append(f"{error!r}: {body!r}")
                raise
            with lock:
                id_ = self.headers["webhook-id"]
                counts[id_] += 1
                status = state.status(self.path, data, counts[id_])
                state.ids[f"{self.path} {position(data)}"].add(id_)
                state.requests.append((self.path, data, status))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def position(data: dict[str, Any]) -> Position:
    return data["commit_lsn"], data["ordinal"]
