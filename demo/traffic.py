"""Live traffic: the day's transactions, committed one by one at a steady rate by one thread.

The thread owns its connection. The story watches ``committed`` and the other counters, which only
the thread writes, and is told of the special moments through ``reached``.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

from cdc.errors import HeadwaterError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from demo.plan import Transaction

_BEHIND_S = 0.5
"""How far behind its rate the thread may be and still catch up; more (after the one transaction
of 50,000 rows) is let go, so that the rate stays steady instead of bursting."""


class Traffic:
    """The writer. ``start``, then watch; ``stop`` ends it early; ``error`` says why it died."""

    def __init__(self, dsn: str, transactions: Sequence[Transaction], rate: float) -> None:
        self._dsn = dsn
        self._transactions = transactions
        self._interval_s = 1 / rate
        self._stop = threading.Event()
        self._reached: dict[str, threading.Event] = {
            transaction.kind: threading.Event() for transaction in transactions
        }
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self.committed = 0
        self.changed: Counter[str] = Counter()
        """Rows by kind of transaction."""
        self.error: HeadwaterError | None = None

    @property
    def planned(self) -> int:
        return len(self._transactions)

    @property
    def rows(self) -> int:
        """Rows changed so far."""
        return self.changed.total()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def reached(self, kind: str) -> bool:
        """Whether the first transaction of this kind has been committed."""
        return self._reached[kind].is_set()

    def stop(self, timeout_s: float = 10.0) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            with connect(self._dsn, application_name="demo traffic") as connection:
                self._write(connection)
        except HeadwaterError as error:
            self.error = error

    def _write(self, connection: Connection) -> None:
        due = time.monotonic()
        for transaction in self._transactions:
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            self.changed[transaction.kind] += commit(connection, transaction)
            self.committed += 1
            self._reached[transaction.kind].set()
            due = max(due + self._interval_s, time.monotonic() - _BEHIND_S)


def commit(connection: Connection, transaction: Transaction) -> int:
    """Commit one transaction and return how many rows it changed."""
    rows = 0
    with translated(f"traffic: {transaction.kind}"), connection.transaction():
        for sql, values in transaction.statements:
            rows += max(0, connection.execute(sql.encode(), values or None).rowcount)
    return rows
