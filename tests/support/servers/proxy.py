"""A TCP proxy on loopback whose connections can be cut, stalled and slowed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_CHUNK: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: close sends RST and drops what was not sent."""


class Proxy:
    """Listens on ``port`` and passes bytes on to ``target``; both on 127.0.0.1. ``accepted``
    counts connections.

    ``stall`` keeps connections open, new ones too, and passes nothing; ``cut`` resets those that
    are there; ``slow`` waits before every chunk. Connections to a target that is down are reset.
    """

    def __init__(self, port: int, target: int) -> None:
        self.accepted = 0
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._delay_s = 0.0
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> int:
        """Reset every connection; how many there were."""
        with self._lock:
            doomed, self._sockets = self._sockets, set()
        for each in doomed:
            _reset(each)
        return len(doomed) // 2

    def stall(self) -> None:
        """Pass nothing on until ``release``."""
        self._open.clear()

    def slow(self, delay_s: float) -> None:
        """Wait before every chunk of at most 64 KB."""
        self._delay_s = delay_s

    def release(self) -> None:
        """Pass everything on again."""
        self._delay_s = 0.0
        self._open.set()

    def close(self) -> None:
        """Let go of everything."""
        self._closed.set()
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target), timeout=10)
        except OSError:
            _reset(client)
            return
        server.settimeout(None)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets |= {client, server}
        other = threading.Thread(target=self._pump, args=(client, server), daemon=True)
        other.start()
        self._pump(server, client)
        other.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """One direction, to its end: orderly when the peer closed, else by a reset of both."""
        pause = threading.Event()
        try:
            while data := source.recv(_CHUNK):
                self._open.wait()
                if self._delay_s:
                    pause.wait(self._delay_s)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _reset(source)
            _reset(sink)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # A thread that waits in recv holds the socket open: it must be woken first.
        connection.shutdown(socket.SHUT_RD)
    connection.close()


@contextmanager
def proxied(dsn: str) -> Iterator[tuple[str, Proxy]]:
    """A URL's server behind a proxy: the URL through it, and the proxy."""
    parts = urlsplit(dsn)
    assert parts.port is not None
    proxy = Proxy(0, parts.port)
    user = f"{parts.username}@" if parts.username else ""
    try:
        yield urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{proxy.port}")), proxy
    finally:
        proxy.close()
