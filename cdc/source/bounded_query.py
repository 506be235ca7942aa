"""Questions to the source that the capture loop has to wait for, and no longer than it can.

A server that was reached may still go silent in the middle of an answer: libpq would wait for ever.
After ``ANSWER_S`` the connection is cut from outside, and the wait ends as one for a lost one does.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from cdc.errors import HeadwaterError, RetryableError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect

ANSWER_S: Final = 30.0


@contextmanager
def asking(dsn: str, limit_s: float = ANSWER_S) -> Iterator[Connection]:
    """A session for a few questions, which together take at most ``limit_s``."""
    with connect(dsn) as conn, answered(conn, limit_s):
        yield conn


@contextmanager
def answered(conn: Connection, limit_s: float = ANSWER_S) -> Iterator[None]:
    """Raises ``RetryableError`` when what is asked inside takes longer, ``conn`` is lost then, and
    when it was lost before."""
    # A descriptor of our own: libpq may close its one, and the number may be another's by then.
    with translated("asking PostgreSQL"):
        duplicate = socket.socket(fileno=os.dup(conn.pgconn.socket))
    cut = threading.Event()

    def give_up() -> None:
        cut.set()
        with suppress(OSError):  # the connection may end by itself at that moment
            duplicate.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except HeadwaterError as error:
        if not cut.is_set():
            raise
        raise RetryableError(
            f"PostgreSQL has not answered for {limit_s:g} s ({error.message})",
            "check the server and the network",
        ) from error
    finally:
        timer.cancel()
        timer.join(1)  # it may be cutting; the descriptor has to outlive it
        duplicate.close()
