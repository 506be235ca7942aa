"""A deadline for a whole HTTP request: sockets know one for each step only, and a receiver that
answers a byte at a time never meets that."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any


class Deadline:
    """Of one request, whose connection ends when it has passed. Use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self.is_over = False

    def watch(self, connection: socket.socket) -> None:
        """The request is sent over that one."""
        with self._lock:  # a copy: TLS takes the socket over
            self._connection = connection.dup()
        if self.is_over:
            self._end()

    def pass_(self) -> None:
        self.is_over = True
        self._end()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _end(self) -> None:
        with self._lock, suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def within(seconds: float) -> Iterator[Deadline]:
    """Raises ``TimeoutError`` in place of what a request meets whose time is over."""
    deadline = Deadline()
    timer = threading.Timer(seconds, deadline.pass_)
    timer.daemon = True
    timer.start()
    try:
        yield deadline
    except (OSError, HTTPException) as error:
        if deadline.is_over:
            raise TimeoutError from error
        raise
    else:
        if deadline.is_over:  # the end of a connection may be taken for that of an answer
            raise TimeoutError
    finally:
        timer.cancel()
        deadline.close()


class WatchedHttp(urllib.request.HTTPHandler):
    """For requests that have a ``deadline``."""

    def http_open(self, req: Any) -> Any:
        return self.do_open(_made(HTTPConnection, req.deadline), req)


class WatchedHttps(urllib.request.HTTPSHandler):
    """The same. What a proxy is asked before TLS counts, and the handshake."""

    def https_open(self, req: Any) -> Any:
        return self.do_open(_made(HTTPSConnection, req.deadline), req)


def _made(kind: Callable[..., HTTPConnection], deadline: Deadline) -> Any:
    """Its connection is watched from when it stands, before anything is sent."""

    def opened(*arguments: Any) -> socket.socket:
        connection = socket.create_connection(*arguments)
        deadline.watch(connection)
        return connection

    def made(*arguments: Any, **named: Any) -> HTTPConnection:
        found: Any = kind(*arguments, **named)
        found._create_connection = opened  # what `connect` calls first, then the proxy's answer
        return found  # type: ignore[no-any-return]

    return made
