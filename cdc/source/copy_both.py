"""COPY BOTH over a session of psycopg: on its own socket where the bytes on it are plain, through
libpq where TLS or GSSAPI hides them.

libpq hands over one frame a call, which costs more than all that is done with a narrow row; many
frames read at once are found in place (decision 12). Nothing here waits but ``start``.
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, Protocol

from psycopg import Error, pq
from psycopg.pq.abc import PGconn

from cdc.protocol.wire import (
    COPY_BOTH,
    COPY_DONE,
    ERROR,
    NOTICE,
    PARAMETER_STATUS,
    Arrived,
    Inbox,
    Message,
    copy_data,
    error_fields,
    query,
)
from cdc.source.postgres import Connection

_RECEIVE_BYTES: Final = 8 << 20
"""Bound of one ``receive``, for wide rows."""
_LEAST_BYTES: Final = 64 << 10
_UNSENT_BYTES: Final = 4 << 10
"""A server that does not read gets no more: newer feedback says all that older did."""


class Refusal(NamedTuple):
    """Why the server said no, or ended the stream; ``state`` is its SQLSTATE, ``context`` tells
    what it was at."""

    state: str
    severity: str
    message: str
    context: str = ""


class EndedError(Exception):
    """The server ended the stream, with its reason if it gave one."""

    def __init__(self, refusal: Refusal | None) -> None:
        super().__init__()
        self.refusal = refusal


class CopyBoth(Protocol):
    """Both directions of a stream. All but ``close`` raise ``EndedError``, ``psycopg.Error`` or
    ``OSError`` when it is over."""

    def start(self, command: str, until: float) -> bool:
        """Send START_REPLICATION; False if nothing is answered until then, by ``monotonic``."""

    def receive(self, limit: int) -> Arrived:
        """About ``limit`` frames, as many as have arrived, without waiting."""

    def send(self, frame: bytes) -> None:
        """Hand over a frame for the server, without waiting."""

    def close(self) -> None:
        """Leave the stream, if there still is one."""


def copy_both(session: Connection) -> CopyBoth:
    """The quickest way that this session allows."""
    if session.pgconn.ssl_in_use or _gssapi(session):
        return _ThroughLibpq(session.pgconn)
    return _OnTheSocket(session.pgconn.socket)


def _gssapi(session: Connection) -> bool:
    row = session.execute(
        "select encrypted from pg_catalog.pg_stat_gssapi where pid = pg_backend_pid()"
    ).fetchone()
    return row is not None and bool(row[0])


class _OnTheSocket:
    """libpq has logged in and is idle: what follows on the socket is all of the stream."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setblocking(False)
        self._inbox = Inbox()
        self._unsent = b""
        self._enough = _LEAST_BYTES

    def start(self, command: str, until: float) -> bool:
        self._unsent = query(command)
        while (remaining := until - monotonic()) > 0:
            self._flush()
            waiting = [self._socket] if self._unsent else []
            select.select([self._socket], waiting, [], min(remaining, 1.0))
            self._read(_LEAST_BYTES)
            while (message := self._inbox.message()) is not None:
                if message.kind == COPY_BOTH:
                    return True
                _judge(message)
        return False

    def receive(self, limit: int) -> Arrived:
        lost = None
        try:
            self._read(self._enough)
        except OSError as error:
            lost = error
        arrived = self._inbox.frames()
        if arrived:  # an end is met again by the next call, with nothing left to hand on
            return self._measured(arrived, limit)
        while (message := self._inbox.message()) is not None:
            _judge(message)
        if lost is not None:
            raise lost
        return arrived

    def send(self, frame: bytes) -> None:
        if len(self._unsent) < _UNSENT_BYTES:
            self._unsent += copy_data(frame)
        self._flush()

    def close(self) -> None:
        self._unsent += COPY_DONE
        with suppress(OSError):  # it is closed either way
            self._flush()
        self._socket.close()

    def _read(self, enough: int) -> None:
        """What has arrived, up to ``enough`` bytes."""
        read = 0
        while read < enough:
            try:
                data = self._socket.recv(enough - read)
            except BlockingIOError:
                return
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._inbox.add(data)
            read += len(data)

    def _measured(self, arrived: Arrived, limit: int) -> Arrived:
        """A read is as large as ``limit`` frames were the last time."""
        average = arrived.ends[-1] // len(arrived) + 1
        self._enough = min(max(average * limit, _LEAST_BYTES), _RECEIVE_BYTES)
        return arrived

    def _flush(self) -> None:
        try:
            sent = self._socket.send(self._unsent) if self._unsent else 0
        except BlockingIOError:
            return
        self._unsent = self._unsent[sent:]


def _judge(message: Message) -> None:
    """Notices and settings pass; whatever else comes is the end."""
    if message.kind in (NOTICE, PARAMETER_STATUS):
        return
    if message.kind != ERROR:
        raise EndedError(None)
    fields = error_fields(message.body)
    state, severity, said, context = (fields.get(name, "") for name in "CSMW")
    raise EndedError(Refusal(state, severity, said, context))


class _ThroughLibpq:
    """libpq decrypts, and hands over one frame a call."""

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection

    def start(self, command: str, until: float) -> bool:
        connection = self._connection
        connection.send_query(command.encode())
        while connection.flush():
            select.select([], [connection.socket], [], 0.1)
        while connection.is_busy():
            remaining = until - monotonic()
            if remaining <= 0:
                return False
            select.select([connection.socket], [], [], min(remaining, 1.0))
            connection.consume_input()
        result = connection.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            raise EndedError(_refusal(result))
        connection.nonblocking = 1
        return True

    def receive(self, limit: int) -> Arrived:
        frames: list[bytes] = []
        size = 0
        drained = False
        while len(frames) < limit and size < _RECEIVE_BYTES:
            length, data = self._next()
            if length > 0:
                frames.append(bytes(data))
                size += length
                drained = False
            elif drained or (length < 0 and frames):
                break
            elif length < 0:
                raise EndedError(_refusal(self._connection.get_result()))
            else:
                self._consume(frames)
                drained = True
        return Arrived.of(frames)

    def send(self, frame: bytes) -> None:
        self._connection.put_copy_data(frame)
        self._connection.flush()

    def close(self) -> None:
        if self._connection.status == pq.ConnStatus.OK:
            with suppress(Error):  # it is closed either way
                self._connection.put_copy_end()
                self._connection.flush()

    def _next(self) -> tuple[int, memoryview]:
        try:
            return self._connection.get_copy_data(1)
        except Error:
            # "No COPY in progress": libpq has read on and met the server's reason.
            if (refusal := _refusal(self._connection.get_result())) is not None:
                raise EndedError(refusal) from None
            raise

    def _consume(self, frames: list[bytes]) -> None:
        """What has arrived; the end of the connection is an error when nothing came before it."""
        try:
            self._connection.consume_input()
        except Error:
            if not frames:
                raise


def _refusal(result: pq.abc.PGresult | None) -> Refusal | None:
    if result is None:
        return None

    def field(name: pq.DiagnosticField) -> str:
        return (result.error_field(name) or b"").decode(errors="replace")

    state, severity = field(pq.DiagnosticField.SQLSTATE), field(pq.DiagnosticField.SEVERITY)
    message = field(pq.DiagnosticField.MESSAGE_PRIMARY)
    context = field(pq.DiagnosticField.CONTEXT)
    return Refusal(state, severity, message, context) if message else None
