"""The shop's application: ``python -m benchmarks.many.writer DSN RATE SECONDS FIRST SIZE...``.

An open loop: each transaction has a time at which it is due, whatever became of the one before.
``FIRST`` numbers new rows and is the seed; the sizes are those of ``benchmarks.many.shop.Sizes``.
Sessions take turns. Prints ``<transactions> <seconds>`` at the end; SIGTERM ends it early.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from benchmarks.many.shop import Sizes
from benchmarks.many.transactions import Transaction, transactions
from cdc.source.postgres import Connection, connect

SESSIONS: Final = 4


def main(arguments: list[str]) -> None:
    """Run all sessions to their end."""
    dsn, rate, seconds, first, *sizes = arguments
    planned = enumerate(transactions(Sizes(*map(int, sizes)), int(first), int(first)))
    stop, taking = threading.Event(), threading.Lock()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    start = time.monotonic()

    def due() -> Iterator[Transaction]:
        """The next transaction when its time has come, for whichever session asks."""
        while True:
            with taking:
                number, transaction = next(planned)
            at = start + number / float(rate)
            if at > start + float(seconds) or stop.wait(max(0, at - time.monotonic())):
                return
            yield transaction

    def write() -> int:
        with connect(dsn, application_name="headwater bench shop") as conn:
            conn.execute("set search_path = public")
            conn.execute("set synchronous_commit = on")
            return sum(commit(conn, transaction) for transaction in due())

    with ThreadPoolExecutor(SESSIONS) as pool:
        counts = [pool.submit(write) for _ in range(SESSIONS)]
        written = sum(count.result() for count in counts)
    sys.stdout.write(f"{written} {time.monotonic() - start}\n")


def commit(conn: Connection, transaction: Transaction) -> int:
    """Send a transaction at once; 1 when it is committed."""
    with conn.pipeline(), conn.transaction():
        for sql, values in transaction.statements:
            conn.execute(sql.encode(), values)
    return 1


if __name__ == "__main__":
    main(sys.argv[1:])
