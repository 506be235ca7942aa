"""A PostgreSQL database that holds views: its sessions, and how long it is waited for.

A session belongs to one table and is kept from batch to batch, on the driver and in each worker of
Spark's; whatever goes wrong with it, the next attempt has another. One that gets no answer from a
server which answers nobody else either is given up. It never commits to memory
alone: Spark's checkpoint takes a batch for stored when ``apply`` returns. Nothing that the server
says of a row is shown: it quotes values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo, pq

from cdc.errors import SinkError
from cdc.secret_values import latest
from cdc.source.postgres import STATEMENT_SETTINGS
from cdc.sslmode import tls_default
from jobs.sinks.batch_writer import until
from jobs.sinks.postgres.errors import RefusingError, is_of_row, not_let_in, translated

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
_SETTINGS: Final = STATEMENT_SETTINGS | {
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
        except RefusingError as error:
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
            raise not_let_in(self.place, str(error)) from error
        conn.parameters = parameters
        conn.prepare_threshold = None  # poolers, and plans of before a column was added
        with translated(self.place):
            conn.execute(_PREPARE)
        return conn

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


def _parameters(dsn: str) -> dict[str, Any]:
    try:
        given = conninfo.conninfo_to_dict(latest(dsn))
    except psycopg.Error:  # its text may quote the password
        raise SinkError(
            "the store's dsn is not a connection string",
            'write "postgresql://user:password@host:5432/database" or "host=... dbname=..."',
        ) from None
    return {**tls_default(given), **given}
