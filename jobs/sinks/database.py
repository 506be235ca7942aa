"""A PostgreSQL database that holds views: its sessions, how long it is waited for, what its
refusals mean.

A session belongs to one table and is kept from batch to batch, on the driver and in each worker of
Spark's; whatever goes wrong with it, the next attempt has another. One that gets no answer from a
server which answers nobody else either is given up. It never commits to memory
alone: Spark's checkpoint takes a batch for stored when ``apply`` returns. Nothing that the server
says of a row is shown: it quotes values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo, pq

from cdc.errors import HeadwaterError, RetryableError, SinkError
from jobs.disks import told_no_room
from jobs.sinks.writing import until

Connection: TypeAlias = psycopg.Connection[Any]
_Steps: TypeAlias = Generator[Any, Any, "_T"]
_T = TypeVar("_T")
Action = Callable[[Connection], _T]

SILENT_S: Final = 30.0
"""After so long without a byte it is asked whether the server answers at all: a statement may take
any time, but of a frozen server TCP says nothing, for its kernel still acknowledges."""
_UNANSWERED: Final = 2
"""So often in a row it does not: in between the session is listened to again."""

_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "headwater",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,
    "target_session_attrs": "read-write",  # of several hosts, the primary
}
# Set in the session, not at its start: poolers take no other settings there.
_SETTINGS: Final = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "search_path": "pg_catalog",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "5s",
    "client_min_messages": "warning",
}
_PREPARE: Final = "select " + ", ".join(
    [f"pg_catalog.set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items()]
    + [
        "case current_setting('synchronous_commit')"
        " when 'off' then pg_catalog.set_config('synchronous_commit', 'on', false) end"
    ]
)
# Of a connection there is only a text; these will not pass by themselves.
_REFUSED: Final = {
    "password authentication failed": "check user and password of the store's dsn",
    "no password supplied": "put the password into the store's dsn, PGPASSWORD or ~/.pgpass",
    "pg_hba.conf": "allow this host, user and database in pg_hba.conf and reload",
    "authentication failed": "check user and password of the store's dsn",
    "not permitted to log in": "ALTER ROLE ... LOGIN, or name another role in the store's dsn",
    "does not exist": "check user and database of the store's dsn",
    "permission denied": "GRANT CONNECT ON DATABASE ... TO the role of the store's dsn",
    "certificate": "check sslmode and sslrootcert of the store's dsn",
    "does not support SSL": "check sslmode of the store's dsn",
}
# Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html
_PASSING: Final = ("08", "57")
_DISK_FULL: Final = "53100"
_OF_FILES: Final = ("58030", "XX000")
"""What a quota is to the server, or a limit on the size of files: not a full disk."""
_NO_WRITES: Final = {
    _DISK_FULL: "its disk is full: make room",
    "53200": "it is out of memory: give it more",
    "53300": "raise max_connections, or end connections that are not needed",
    "53400": "a limit of its configuration is reached: see its log",
    "25006": "it is read-only: point the store's dsn at the primary",
    "55P03": "another session holds a lock that the view needs: end it",
}
_HINTS: Final = {
    "42501": "GRANT USAGE, CREATE ON SCHEMA ... TO the role of the dsn; let it own its tables",
    "3F000": "create the schema, or GRANT CREATE ON DATABASE ... TO the role of the store's dsn",
    "2BP01": "drop what depends on the view first; make it again on the new one",
    "42701": "give the column another name with AS: PostgreSQL has one like it in every table",
    "42P01": "it was removed: `headwater view rebuild` fills it anew, from a snapshot",
}
_OF_ROWS: Final = ("22", "23", "54")
"""Data errors, constraints, limits of a row: their texts quote values."""
_COLUMN: Final = re.compile(r"column (\S+?)(?::|$)")


class _RefusingError(RetryableError):
    """The server answers, but takes no writes for now."""


_idle: Final[dict[tuple[str, str], list[Connection]]] = {}
"""Sessions that nobody uses now, by dsn and table. Whoever uses one has taken it out."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where it is and how long to wait for it; can be sent to executors."""

    dsn: str = field(repr=False)
    retry_s: float

    @property
    def place(self) -> str:
        """Host, port and database: what may be shown of the dsn."""
        known = {
            option.keyword.decode(): option.val.decode()
            for option in pq.Conninfo.get_defaults()
            if option.val
        }
        known |= {name: str(value) for name, value in _parameters(self.dsn).items()}
        hosts = (known.get("host") or known.get("hostaddr") or "local socket").split(",")
        ports = (known.get("port") or "5432").split(",")
        where = ",".join(f"{host}:{ports[i % len(ports)]}" for i, host in enumerate(hosts))
        return f"PostgreSQL at {where}/{known.get('dbname') or known.get('user', '')}"

    def call(self, table: str, action: Action[_T]) -> _T:
        """Run ``action`` as one transaction of the table's session, again for up to ``retry_s``
        while the server is away or takes no writes."""
        try:
            return until(self.retry_s, lambda: self._attempt(table, action))
        except _RefusingError as error:
            raise SinkError(error.message, error.hint) from error

    def _attempt(self, table: str, action: Action[_T]) -> _T:
        idle = _idle.setdefault((self.dsn, table), [])
        with ExitStack() as on_fault, translated(self.place):
            conn = idle.pop() if idle else self._connect()
            on_fault.callback(conn.close)
            with conn.transaction():
                result = action(conn)
            on_fault.pop_all()
            idle.append(conn)
            return result

    def _connect(self) -> Connection:
        parameters = _DEFAULTS | _parameters(self.dsn)
        try:
            conn = _Patient.connect(**parameters, autocommit=True)
        except psycopg.OperationalError as error:
            raise self._unreachable(str(error)) from error
        conn.parameters = parameters
        conn.prepare_threshold = None  # poolers, and plans of before a column was added
        with translated(self.place):
            conn.execute(_PREPARE)
        return conn

    def _unreachable(self, text: str) -> HeadwaterError:
        for part, hint in _REFUSED.items():
            if part in text:
                return SinkError(f"{self.place} refused the connection: {part}", hint)
        if "session is read-only" in text or "is not read-write" in text:
            return _RefusingError(f"{self.place} takes no writes", _NO_WRITES["25006"])
        return RetryableError(
            f"{self.place} does not answer", "start it, or correct the store's dsn"
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction in a session of its own, for what is read page by page."""
        conn = until(self.retry_s, self._connect)
        try:
            with translated(self.place), conn.transaction():
                yield conn
        finally:
            conn.close()

    def release(self, table: str) -> None:
        """Close the table's sessions in this process."""
        for conn in _idle.pop((self.dsn, table), []):
            conn.close()


class _Patient(psycopg.Connection[Any]):
    """A session that waits for as long as the server answers others who connect."""

    parameters: dict[str, Any]

    def wait(self, gen: _Steps[_T], *args: Any, **kwargs: Any) -> _T:
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, gen: _Steps[_T]) -> _Steps[_T]:
        """The same steps of psycopg's; looks on while no byte comes or goes."""
        heard, ready, unanswered = time.monotonic(), None, 0
        while True:
            try:
                state = gen.send(ready)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            ready = yield state
            if ready:
                unanswered = 0
            elif time.monotonic() - heard < SILENT_S:
                continue
            else:
                unanswered = 0 if self._answers() else unanswered + 1
            if unanswered == _UNANSWERED:
                self.close()
                raise psycopg.OperationalError("the server was silent for too long")
            heard = time.monotonic()

    def _answers(self) -> bool:
        """Whether this server does: another one of the dsn may be well, and the primary now."""
        own = {"host": self.info.host, "port": self.info.port, "target_session_attrs": "any"}
        if self.info.hostaddr:
            own["hostaddr"] = self.info.hostaddr
        try:
            psycopg.connect(**(self.parameters | own)).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.OperationalError:
            return True  # it refuses, which is an answer; or its machine does, so TCP will tell
        return True


class Fault:
    """What a block of ``refusing_rows`` came to."""

    error: psycopg.Error | None = None


@contextmanager
def refusing_rows(conn: Connection) -> Iterator[Fault]:
    """A part of a transaction that is taken back alone when a row of it is refused."""
    fault = Fault()
    try:
        with conn.transaction():
            yield fault
    except psycopg.Error as error:
        if not is_of_row(error):
            raise
        fault.error = error


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn psycopg's errors inside the block into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, place) from error


def _translated(error: psycopg.Error, place: str) -> HeadwaterError:
    state = error.sqlstate or ""
    said = (error.diag.message_primary or "").splitlines()
    is_full = state in _OF_FILES and bool(said and told_no_room(said[0]))
    known = _DISK_FULL if is_full else state
    if known in _NO_WRITES:
        return _RefusingError(f"{place} takes no writes ({state})", _NO_WRITES[known])
    if state.startswith("40"):
        return RetryableError(f"{place} is busy ({state})")
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not state
    if lost or state.startswith(_PASSING):
        return RetryableError(f"{place} does not answer", "start it, or correct the store's dsn")
    if state.startswith(_OF_ROWS) or not state:
        return SinkError(f"{place} refused a write: {of_row(error)}")
    return SinkError(f"{place} refused: {said[0] if said else state}", _HINTS.get(state, ""))


def is_of_row(error: psycopg.Error) -> bool:
    """Whether a single row may be the cause."""
    return (error.sqlstate or "").startswith(_OF_ROWS)


def of_row(error: psycopg.Error) -> str:
    """Why a row was refused: the condition, and the column or constraint, without the value."""
    name = type(error).__name__
    named = error.diag.constraint_name or error.diag.column_name
    if named is None and (match := _COLUMN.search(error.diag.context or "")):
        named = match[1]
    return f"{error.sqlstate} {name}" + (f" in {named}" if named else "")


def _parameters(dsn: str) -> dict[str, Any]:
    try:
        return dict(conninfo.conninfo_to_dict(dsn))
    except psycopg.Error:  # its text may quote the password
        raise SinkError(
            "the store's dsn is not a connection string",
            'write "postgresql://user:password@host:5432/database" or "host=... dbname=..."',
        ) from None
