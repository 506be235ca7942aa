"""Writes at a steady rate: ``python -m benchmarks.traffic DSN TABLE RATE SECONDS FIRST_ID``.

An open loop: each transaction has a time at which it is due, whatever became of the one before.
Several sessions take turns, so one slow commit makes only its own session late. Prints
``<id> <monotonic ns>`` for every commit, taken as soon as COMMIT has returned. A process of its
own, so that it shares no interpreter with who reads; both read the same clock, the system's.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cdc.postgres import connect

SESSIONS: Final = 4
_CONNECT_S: Final = 30.0
_INSERT: Final = """
insert into public.{table} values
    (%s, 1, 'new', 12.34, repeat('x', 144), statement_timestamp(), statement_timestamp())
"""


def main(arguments: list[str]) -> None:
    """Run all sessions, then print what they committed."""
    dsn, table, rate, seconds, first_id = arguments
    count = int(float(rate) * float(seconds))
    commits: list[list[tuple[int, int]]] = [[] for _ in range(SESSIONS)]
    begin = threading.Barrier(SESSIONS + 1, timeout=_CONNECT_S)
    start_ns = 0

    def write(session: int) -> None:
        statement = _INSERT.format(table=table).encode()
        with connect(dsn, application_name="headwater bench traffic") as conn:
            conn.execute("set synchronous_commit = on")
            begin.wait()
            begin.wait()
            for i in range(session, count, SESSIONS):
                due_ns = start_ns + int(i / float(rate) * 1e9)
                time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
                row_id = int(first_id) + i
                conn.execute(statement, (row_id,))  # autocommit: COMMIT is part of it
                commits[session].append((row_id, time.monotonic_ns()))

    with ThreadPoolExecutor(SESSIONS) as pool:
        running = [pool.submit(write, session) for session in range(SESSIONS)]
        begin.wait()
        start_ns = time.monotonic_ns()
        begin.wait()
        for session in running:
            session.result()
    for row_id, at_ns in sorted(commit for of_session in commits for commit in of_session):
        sys.stdout.write(f"{row_id} {at_ns}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
