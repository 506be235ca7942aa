"""Clients that write at the same time, each a thread with a connection and a seed of its own.

A client knows of every transaction how it ended. A commit whose answer was lost, because the
server was killed, is decided by looking for the name that each transaction leaves in a table
of its own. (Its id would not do: one that no WAL tells of is given again after a crash.)
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import errors

from cdc.lsn import parse_lsn
from tests.chaos.workload import ddl
from tests.chaos.workload.actions import MILD, Action, Connection, bulk
from tests.chaos.workload.tables import BULK, LEDGER, TABLES, Table
from tests.chaos.workload.truth import Transaction, Truth

_TRANSACTION: Final = """
select pg_current_xact_id()::text::bigint, pg_current_wal_insert_lsn()::text
"""
_SIGN: Final = f"insert into {LEDGER} values (%s)".encode()
_ALONE: Final = b"select pg_logical_emit_message(false, 'chaos', %s, true)"
# Versions before 17 cannot be told to flush; a commit with an id does.
_ALONE_16: Final = b"select pg_current_xact_id(), pg_logical_emit_message(false, 'chaos', %s)"
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)
_RETRY_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.03


class Control:
    """What the clients are told: also which tables they write, and how long they may rest between
    two transactions."""

    def __init__(
        self, tables: Sequence[Table] = TABLES, longest_pause_s: float = LONGEST_PAUSE_S
    ) -> None:
        self.tables, self.longest_pause_s = tables, longest_pause_s
        self.stop = threading.Event()
        self.wild = threading.Event()
        """From here on everything may happen, not only what a snapshot stands beside."""
        self.flood = threading.Event()
        """One client writes a large transaction now."""
        self.failures: list[str] = []


class Client(threading.Thread):
    """One connection that writes until it is told to stop."""

    def __init__(self, dsn: str, seed: int, number: int, truth: Truth, control: Control) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._dsn = dsn
        self._rng = random.Random(f"{seed}/{number}")
        self._number = number
        self._truth = truth
        self._control = control
        self._open: Transaction | None = None
        self._prepared: str | None = None
        self._count = 0

    def run(self) -> None:
        """Write; connect again when the connection is lost."""
        while not self._control.stop.is_set() or self._open is not None:
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as conn:
                    self._settle(conn)
                    while not self._control.stop.is_set():
                        self._transaction(conn)
                        self._control.stop.wait(self._rng.uniform(0, self._control.longest_pause_s))
            except _LOST:
                self._control.stop.wait(_RETRY_S)
                threading.Event().wait(_RETRY_S)
            except Exception as error:  # a fault of the workload itself: told, not swallowed
                self._control.failures.append(f"{self.name}: {type(error).__name__}: {error}")
                return

    def _settle(self, conn: Connection) -> None:
        """How did the transaction end whose answer never came?"""
        transaction = self._open
        if transaction is None:
            return
        self._truth.lost_answer()
        if self._prepared is not None:
            waiting = "select 1 from pg_prepared_xacts where gid = %s"
            if conn.execute(waiting, (self._prepared,)).fetchone():
                conn.execute(f"commit prepared '{self._prepared}'".encode())
        # Inserting it waits for a session that still holds it.
        written = conn.execute(_SIGN + b" on conflict do nothing", (self._sign(),))
        if written.rowcount == 0:
            self._truth.commit(transaction)
        else:
            self._truth.roll_back(transaction.xid)
        self._open = self._prepared = None

    def _transaction(self, conn: Connection) -> None:
        if self._control.wild.is_set() and self._rng.random() < 0.02:
            self._untransactional(conn)
        if self._rng.random() < 0.003:
            conn.execute("checkpoint")
        try:
            conn.execute("begin")
            row = conn.execute(_TRANSACTION.encode()).fetchone()
            assert row is not None
            transaction = self._open = Transaction(self._number, row[0], parse_lsn(row[1]))
            self._count += 1
            conn.execute(_SIGN, (self._sign(),))
            for _ in range(self._rng.choice([1, 1, 1, 2, 3, 5])):
                self._act(conn, transaction)
            self._end(conn, transaction)
        except _LOST as error:
            if isinstance(error, errors.Error) and error.sqlstate and not conn.closed:
                self._failed(conn)  # an error the server told, such as a lock's timeout
            else:
                raise
        except psycopg.Error:
            self._failed(conn)

    def _sign(self) -> str:
        return f"{self._number}_{self._count}"

    def _failed(self, conn: Connection) -> None:
        """The server refused a statement: a duplicate key, a deadlock, a lock's timeout."""
        conn.execute("rollback")
        if self._open is not None:
            self._truth.roll_back(self._open.xid)
        self._open = self._prepared = None

    def _end(self, conn: Connection, transaction: Transaction) -> None:
        chance = self._rng.random()
        if chance < 0.08:
            conn.execute("rollback")
            self._truth.roll_back(transaction.xid)
        else:
            if chance < 0.14:
                self._prepared = f"chaos_{self._sign()}_{transaction.xid}"
                conn.execute(f"prepare transaction '{self._prepared}'".encode())
                conn.execute(f"commit prepared '{self._prepared}'".encode())
            else:
                conn.execute("commit")
            self._truth.commit(transaction)
            self._open = self._prepared = None
            ended = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            assert ended is not None
            transaction.ended_lsn = parse_lsn(ended[0])
        self._open = self._prepared = None

    def _act(self, conn: Connection, transaction: Transaction) -> None:
        """One action, in a savepoint or not, whose changes may be rolled back."""
        action, made = self._choose(), transaction.changes
        table = self._rng.choice(self._control.tables[:-1])
        if self._rng.random() > 0.2:
            action(conn, self._rng, table, made)
            return
        kept = len(made)
        conn.execute("savepoint s")
        try:
            action(conn, self._rng, table, made)
        except _LOST:
            raise
        except psycopg.Error:
            del made[kept:]
            conn.execute("rollback to savepoint s")
        else:
            if self._rng.random() < 0.5:
                del made[kept:]
                conn.execute("rollback to savepoint s")
        conn.execute("release savepoint s")

    def _choose(self) -> Action:
        if self._number == 0 and self._control.flood.is_set():
            self._control.flood.clear()
            return bulk
        actions = ddl.WILD if self._control.wild.is_set() else MILD
        return self._rng.choices(list(actions), list(actions.values()))[0]

    def _untransactional(self, conn: Connection) -> None:
        content = f"n{self._rng.getrandbits(64):x}"
        self._truth.message(content, False)
        conn.execute(_ALONE if conn.info.server_version >= 170_000 else _ALONE_16, (content,))
        self._truth.message(content, True)


assert TABLES[-1] is BULK  # only large transactions write it
