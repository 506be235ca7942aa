"""The replication connection: logical streaming on ``psycopg.pq``, without blocking.

psycopg has no API for COPY BOTH, so this module speaks libpq's own functions. It moves frames and
knows two of them: XLogData, which it hands on unread, and the primary keepalive.
https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import select
from collections.abc import Callable
from struct import Struct
from time import monotonic
from typing import Final, NamedTuple

from psycopg import Error, pq

from cdc.errors import HeadwaterError, RetryableError, SourceError
from cdc.lsn import format_lsn
from cdc.protocol.messages import POSTGRES_EPOCH_US
from cdc.source.postgres import connect, connection_parameters, identifier, literal, place

XLOG_DATA: Final = ord("w")
KEEPALIVE: Final = ord("k")

_RECEIVE_BYTES: Final = 8 << 20
"""Bound of one ``receive``, for wide rows."""

_START_S: Final = 30.0
"""How long the server may take to answer START_REPLICATION."""
_LISTENING_S: Final = 1.0
"""Who has not looked for so long was busy: the server was not silent meanwhile."""

_KEEPALIVE = Struct(">BQqB")
_FEEDBACK = Struct(">cQQQqB")

_AGAIN: Final = "run `headwater init --again` for a new snapshot, and let the views apply it"
_SLOT_FAULTS: Final = {
    "42704": f"its slot is gone, and what changed since is lost to the stream: {_AGAIN}",
    "55000": f"the slot can no longer be read: {_AGAIN}",
    "42501": "ALTER ROLE ... REPLICATION for the role of source.dsn",
}
_IN_USE: Final = "55006"


class Keepalive(NamedTuple):
    """The server's word that it has sent everything up to ``wal_end``."""

    wal_end: int
    reply_requested: bool


class SlotInUseError(RetryableError):
    """Another session streams from the slot; it may be a dead one the server has not noticed.

    ``pid`` is the process that serves it, 0 if the server does not say.
    """

    def __init__(self, message: str, hint: str = "", pid: int = 0) -> None:
        super().__init__(message, hint)
        self.pid = pid


class SilentServerError(RetryableError):
    """Not one byte for ``silence_s``, although a reply was asked for: the connection is dead, or
    what stands between stalls, or the server decodes much of which nothing is captured."""


class ReplicationStream:
    """An open stream. ``receive`` never waits; wait on ``fileno`` instead.

    ``busy`` tells of the server's process whether it is known to work: its silence is no fault.
    """

    def __init__(
        self,
        dsn: str,
        slot: str,
        publication: str,
        start_lsn: int,
        silence_s: float = 60.0,
        busy: Callable[[int], bool] = lambda _pid: False,
    ) -> None:
        self._place = place(connection_parameters(dsn))
        self._session = connect(dsn, application_name="headwater capture", replication=True)
        self._connection = self._session.pgconn
        self.pid = self._session.info.backend_pid
        self._silence_s = silence_s
        self._busy = busy
        try:
            self._start(slot, publication, start_lsn)
        except BaseException:
            self._session.close()
            raise
        self._looked = self._heard = monotonic()

    def fileno(self) -> int:
        """The socket, for ``select``."""
        return self._connection.socket

    def receive(self, limit: int) -> list[bytes]:
        """Up to ``limit`` frames that have arrived. Raises ``RetryableError`` when the stream
        ended, the connection is lost or the server silent."""
        connection = self._connection
        now, self._looked, looked = monotonic(), monotonic(), self._looked
        if now - looked > _LISTENING_S:
            self._heard = now
        frames: list[bytes] = []
        size = 0
        drained = False
        get_copy_data, append = connection.get_copy_data, frames.append
        try:
            while len(frames) < limit and size < _RECEIVE_BYTES:
                length, data = get_copy_data(1)
                if length > 0:
                    append(bytes(data))
                    size += length
                    drained = False
                elif length < 0:
                    raise self._ended()
                elif drained:
                    break
                else:
                    if not frames and now - self._heard > _LISTENING_S:
                        self._listen(now)
                    connection.consume_input()
                    drained = True
        except Error as error:
            if not frames:
                raise self._lost(error) from None
            # The next call meets the same end, with nothing left to hand on.
        if frames:
            self._heard = now
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
                pass  # it is closed either way
        self._session.close()

    def _listen(self, now: float) -> None:
        """Part of a large frame is no silence; raises ``SilentServerError``."""
        if select.select([self._connection.socket], [], [], 0)[0] or (
            now - self._heard > self._silence_s and self._busy(self.pid)
        ):
            self._heard = now
        elif now - self._heard > self._silence_s:
            raise SilentServerError(
                f"{self._place} has been silent for {now - self._heard:.0f} s, not answering "
                "what it was asked",
                "look at the network, and at the server's process walsender",
            )

    def _start(self, slot: str, publication: str, start_lsn: int) -> None:
        names = literal(identifier(publication))
        command = (
            f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {format_lsn(start_lsn)} "
            f"(proto_version '1', publication_names {names}, messages 'true')"
        )
        try:
            self._connection.send_query(command.encode())
            self._await_answer()
            result = self._connection.get_result()
        except Error as error:
            raise self._lost(error) from None
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            raise self._refused(result, slot) if result else self._ended()
        self._connection.nonblocking = 1

    def _await_answer(self) -> None:
        deadline = monotonic() + _START_S
        while self._connection.flush():
            select.select([], [self._connection.socket], [], 0.1)
        while self._connection.is_busy():
            remaining = deadline - monotonic()
            if remaining <= 0:
                raise SilentServerError(
                    f"{self._place} has not answered START_REPLICATION for {_START_S:.0f} s",
                    "look at the network, and at the server's process walsender",
                )
            select.select([self._connection.socket], [], [], min(remaining, 1.0))
            self._connection.consume_input()

    def _refused(self, result: pq.abc.PGresult, slot: str) -> HeadwaterError:
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        reason = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
        message = f"cannot stream from slot {slot} at {self._place}: {reason}"
        if state == _IN_USE:
            pid = reason.rpartition(" PID ")[2]
            hint = "another capture is running: stop one of them"
            return SlotInUseError(message, hint, int(pid) if pid.isdigit() else 0)
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
