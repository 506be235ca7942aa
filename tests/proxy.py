"""A TCP proxy that can stall: connections stay open, accepted and acknowledged, and say nothing."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """In front of one server; every connection goes through one thread."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._flowing = threading.Event()
        self._flowing.set()
        self._ended = threading.Event()
        self.accepted = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def stall(self) -> None:
        """Forward nothing, in no direction, until ``flow``."""
        self._flowing.clear()

    def flow(self) -> None:
        """Forward again, also what was sent meanwhile."""
        self._flowing.set()

    def close(self) -> None:
        """Cut every connection."""
        self._ended.set()
        self._flowing.set()
        self._thread.join(5)
        for key in list(self._selector.get_map().values()):
            with contextlib.suppress(OSError):
                key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._flowing.wait(0.1)
            if not self._flowing.is_set():
                continue
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    self._accept()
                elif self._flowing.is_set():
                    self._forward(key)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._target)
        self.accepted += 1
        self._selector.register(client, selectors.EVENT_READ, server)
        self._selector.register(server, selectors.EVENT_READ, client)

    def _forward(self, key: selectors.SelectorKey) -> None:
        source, target = key.fileobj, key.data
        assert isinstance(source, socket.socket)
        try:
            data = source.recv(1 << 16)
            if data:
                target.sendall(data)
                return
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(end)
            end.close()


@contextmanager
def proxied(dsn: str) -> Iterator[tuple[str, Proxy]]:
    """A URL's server behind a proxy: the URL through it, and the proxy."""
    parts = urlsplit(dsn)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 0)
    user = f"{parts.username}@" if parts.username else ""
    try:
        yield urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{proxy.port}")), proxy
    finally:
        proxy.close()
