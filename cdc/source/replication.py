"""The replication connection: logical streaming, without blocking, and why it ends.

It moves frames and knows two of them: XLogData, which it hands on unread, and the primary
keepalive. https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from time import monotonic
from typing import Final, NamedTuple

from psycopg import Error

from cdc.errors import HeadwaterError, RetryableError, SourceError
from cdc.lsn import format_lsn
from cdc.protocol.messages import POSTGRES_EPOCH_US
from cdc.protocol.wire import Arrived
from cdc.source.copy_both import EndedError, Refusal, copy_both
from cdc.source.errors import place
from cdc.source.postgres import connect, connection_parameters, identifier, literal

_START_S: Final = 30.0
"""How long the server may take to answer START_REPLICATION."""
_LISTENING_S: Final = 1.0
"""Who has not looked for so long was busy: the server was not silent meanwhile."""

_KEEPALIVE = Struct(">BQqB")
_FEEDBACK = Struct(">cQQQqB")

_AGAIN: Final = "run `headwater init --again` for a new snapshot, and let the views apply it"
_SLOT_FAULTS: Final = {
    "42704": f"{_AGAIN}: the slot is gone, and the stream lacks the changes since then",
    "55000": f"{_AGAIN}: the slot can no longer be read",
    "42501": "run `ALTER ROLE ... REPLICATION` for the role of source.dsn",
}
_IN_USE: Final = "55006"
_DATA: Final = "22"
"""The class of errors in data: bytes that are no text, a row filter that divides by zero. WAL keeps
what it is, so each further attempt ends in the same."""
_AT: Final = re.compile(r"associated LSN ([0-9A-F]+/[0-9A-F]+)")


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
        self._slot = slot
        self._session = connect(dsn, application_name="headwater capture", replication=True)
        self.pid = self._session.info.backend_pid
        self._silence_s = silence_s
        self._busy = busy
        try:
            with self._translated():
                self._wire = copy_both(self._session)
            self._start(slot, publication, start_lsn)
        except BaseException:
            self._session.close()
            raise
        self._looked = self._heard = monotonic()

    def fileno(self) -> int:
        """The socket, for ``select``. Raises ``RetryableError`` for a connection that is lost."""
        with self._translated():
            return self._session.pgconn.socket

    def receive(self, limit: int) -> Arrived:
        """About ``limit`` frames, or as many as have arrived. Raises ``RetryableError`` when the
        stream ended, the connection is lost or the server silent, ``SourceError`` when the server
        cannot send what comes next."""
        now, self._looked, looked = monotonic(), monotonic(), self._looked
        if now - looked > _LISTENING_S:
            self._heard = now
        elif now - self._heard > _LISTENING_S:
            self._listen(now)
        with self._translated():
            arrived = self._wire.receive(limit)
        if arrived:
            self._heard = now
        return arrived

    def feedback(self, received: int, confirmed: int, now_us: int, ask: bool) -> None:
        """Standby status update; with ``ask`` the server answers with a keepalive at once."""
        message = _FEEDBACK.pack(
            b"r", received, confirmed, confirmed, now_us - POSTGRES_EPOCH_US, ask
        )
        with self._translated():
            self._wire.send(message)

    def close(self) -> None:
        """Leave the stream; the server frees the slot when it sees the connection end."""
        self._wire.close()
        self._session.close()

    def _listen(self, now: float) -> None:
        """Part of a large frame is no silence; raises ``SilentServerError``."""
        if select.select([self], [], [], 0)[0] or (
            now - self._heard > self._silence_s and self._busy(self.pid)
        ):
            self._heard = now
        elif now - self._heard > self._silence_s:
            raise SilentServerError(
                f"{self._place} has sent nothing for {now - self._heard:.0f} s and does not "
                "answer requests",
                "check the network and the server's walsender process",
            )

    def _start(self, slot: str, publication: str, start_lsn: int) -> None:
        names = literal(identifier(publication))
        command = (
            f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {format_lsn(start_lsn)} "
            f"(proto_version '1', publication_names {names}, messages 'true')"
        )
        try:
            answered = self._wire.start(command, monotonic() + _START_S)
        except EndedError as ended:
            raise self._refused(ended.refusal, slot) if ended.refusal else self._over() from None
        except (Error, OSError) as error:
            raise self._lost(error) from None
        if not answered:
            raise SilentServerError(
                f"{self._place} has not answered START_REPLICATION for {_START_S:.0f} s",
                "check the network and the server's walsender process",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The end of the stream in our terms."""
        try:
            yield
        except EndedError as ended:
            raise self._over(ended.refusal) from None
        except (Error, OSError) as error:
            raise self._lost(error) from None

    def _refused(self, refusal: Refusal, slot: str) -> HeadwaterError:
        message = f"cannot stream from slot {slot} at {self._place}: {refusal.message}"
        if refusal.state == _IN_USE:
            pid = refusal.message.rpartition(" PID ")[2]
            hint = "stop one of them: another capture is running"
            return SlotInUseError(message, hint, int(pid) if pid.isdigit() else 0)
        if refusal.state in _SLOT_FAULTS:
            return SourceError(message, _SLOT_FAULTS[refusal.state])
        if refusal.state.startswith(_DATA):
            return self._undecodable(refusal)
        return RetryableError(message)

    def _undecodable(self, refusal: Refusal) -> SourceError:
        at = _AT.search(refusal.context)
        where = f"the change at LSN {at[1]}" if at else "a change"
        return SourceError(
            f"{self._place} cannot send {where} of slot {self._slot}: {refusal.message} "
            f"(SQLSTATE {refusal.state})",
            f"correct the row or the publication's row filter, then {_AGAIN}",
        )

    def _over(self, refusal: Refusal | None = None) -> HeadwaterError:
        if refusal is not None and refusal.state.startswith(_DATA):
            return self._undecodable(refusal)
        said = f"{refusal.severity}: {refusal.message}" if refusal else "server shut down"
        return RetryableError(f"{self._place} ended the stream: {said}")

    def _lost(self, error: Exception) -> RetryableError:
        return RetryableError(f"connection to {self._place} lost: {' '.join(str(error).split())}")


def parse_keepalive(frame: bytes) -> Keepalive:
    """A ``k`` frame."""
    _kind, wal_end, _time, reply = _KEEPALIVE.unpack(frame)
    return Keepalive(wal_end, bool(reply))
