"""The replication connection: logical streaming on ``psycopg.pq``, without blocking.

psycopg has no API for COPY BOTH, so this module speaks libpq's own functions. It moves frames and
knows two of them: XLogData, which it hands on unread, and the primary keepalive.
https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from psycopg import Error, conninfo, pq

from cdc.errors import HeadwaterError, RetryableError, SourceError
from cdc.lsn import format_lsn
from cdc.messages import POSTGRES_EPOCH_US
from cdc.postgres import connection_error, connection_parameters, identifier, literal, place

XLOG_DATA: Final = ord("w")
KEEPALIVE: Final = ord("k")

_RECEIVE_BYTES: Final = 8 << 20
"""Bound of one ``receive``, for wide rows."""

_KEEPALIVE = Struct(">BQqB")
_FEEDBACK = Struct(">cQQQqB")

_SLOT_FAULTS: Final = {
    "42704": "its slot is gone: changes since then are lost to the stream; run `headwater init` "
    "after dropping what is left, and rebuild the views",
    "55000": "the slot can no longer be read: drop it and run `headwater init` again",
    "42501": "ALTER ROLE ... REPLICATION for the role of source.dsn",
}
_IN_USE: Final = "55006"


class Keepalive(NamedTuple):
    """The server's word that it has sent everything up to ``wal_end``."""

    wal_end: int
    reply_requested: bool


class SlotInUseError(RetryableError):
    """Another session streams from the slot; it may be a dead one the server has not noticed."""


class ReplicationStream:
    """An open stream. ``receive`` never waits; wait on ``fileno`` instead."""

    def __init__(self, dsn: str, slot: str, publication: str, start_lsn: int) -> None:
        parameters = connection_parameters(dsn, "headwater capture", replication=True)
        self._place = place(parameters)
        self._connection = pq.PGconn.connect(conninfo.make_conninfo(**parameters).encode())
        if self._connection.status != pq.ConnStatus.OK:
            fault = self._connection.get_error_message()
            self._connection.finish()
            raise connection_error(fault, parameters)
        try:
            self._start(slot, publication, start_lsn)
        except BaseException:
            self._connection.finish()
            raise

    def fileno(self) -> int:
        """The socket, for ``select``."""
        return self._connection.socket

    def receive(self, limit: int) -> list[bytes]:
        """Up to ``limit`` frames that have arrived. Raises ``RetryableError`` when the stream
        ended or the connection is lost."""
        connection = self._connection
        frames: list[bytes] = []
        size = 0
        drained = False
        try:
            while len(frames) < limit and size < _RECEIVE_BYTES:
                length, data = connection.get_copy_data(1)
                if length > 0:
                    frames.append(bytes(data))
                    size += length
                    drained = False
                elif length < 0:
                    raise self._ended()
                elif drained:
                    break
                else:
                    connection.consume_input()
                    drained = True
        except Error as error:
            if not frames:
                raise self._lost(error) from None
            # The next call meets the same end, with nothing left to hand on.
        return frames

    def feedback(self, received: int, confirmed: int, now_us: int, ask: bool) -> None:
        """Standby status update; with ``ask`` the server answers with a keepalive at once."""
        message = _FEEDBACK.pack(
            b"r", received, confirmed, confirmed, now_us - POSTGRES_EPOCH_US, ask
        )
        try:
            self._connection.put_copy_data(message)
            self._connection.flush()
        except Error as error:
            raise self._lost(error) from None

    def close(self) -> None:
        """Leave the stream; the server frees the slot when it sees the connection end."""
        if self._connection.status == pq.ConnStatus.OK:
            try:
                self._connection.put_copy_end()
                self._connection.flush()
            except Error:
                self._connection.finish()
                return
        self._connection.finish()

    def _start(self, slot: str, publication: str, start_lsn: int) -> None:
        names = literal(identifier(publication))
        command = (
            f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {format_lsn(start_lsn)} "
            f"(proto_version '1', publication_names {names}, messages 'true')"
        )
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise self._refused(result, slot)
        self._connection.nonblocking = 1

    def _refused(self, result: pq.abc.PGresult, slot: str) -> HeadwaterError:
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        reason = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
        message = f"cannot stream from slot {slot} at {self._place}: {reason}"
        if state == _IN_USE:
            return SlotInUseError(message, "another capture is running: stop one of them")
        if state in _SLOT_FAULTS:
            return SourceError(message, _SLOT_FAULTS[state])
        return RetryableError(message)

    def _ended(self) -> HeadwaterError:
        result = self._connection.get_result()
        reason = result.error_message.decode(errors="replace").strip() if result else ""
        return RetryableError(f"{self._place} ended the stream: {reason or 'server shut down'}")

    def _lost(self, error: Error) -> RetryableError:
        return RetryableError(f"connection to {self._place} lost: {' '.join(str(error).split())}")


def parse_keepalive(frame: bytes) -> Keepalive:
    """A ``k`` frame."""
    _kind, wal_end, _time, reply = _KEEPALIVE.unpack(frame)
    return Keepalive(wal_end, bool(reply))
