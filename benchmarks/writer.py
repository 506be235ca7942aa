"""Writes at a steady rate: ``python -m benchmarks.writer DSN RATE SECONDS ROWS STATEMENT...``.

An open loop: each transaction (one of the statements, which take turns) has a time at which it is
due, whatever became of the one before. A statement says ``%(first)s`` and ``%(last)s`` for the
numbers it is to write, ``ROWS`` of them; they begin at 1. Several sessions take turns, so one slow
commit makes only its own session late. Prints ``<first number> <monotonic ns>`` for every commit,
taken as soon as COMMIT has returned. A process of its own, so that it shares no interpreter with
who reads; both read the same clock, the system's. SIGTERM ends it early, between transactions.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cdc.source.postgres import connect

SESSIONS: Final = 4
_CONNECT_S: Final = 30.0


def main(arguments: list[str]) -> None:
    """Run all sessions, then print what they committed."""
    dsn, rate, seconds, rows, *statements = arguments
    count, step = int(float(rate) * float(seconds)), int(rows)
    commits: list[list[tuple[int, int]]] = [[] for _ in range(SESSIONS)]
    begin = threading.Barrier(SESSIONS + 1, timeout=_CONNECT_S)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    start_ns = 0

    def write(session: int) -> None:
        with connect(dsn, application_name="headwater bench traffic") as conn:
            conn.execute("set synchronous_commit = on")
            begin.wait()
            begin.wait()
            for i in range(session, count, SESSIONS):
                due_ns = start_ns + int(i / float(rate) * 1e9)
                time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
                if stop.is_set():
                    return
                first = 1 + i * step
                numbers = {"first": first, "last": first + step - 1}
                conn.execute(statements[i % len(statements)].encode(), numbers)  # with COMMIT
                commits[session].append((first, time.monotonic_ns()))

    with ThreadPoolExecutor(SESSIONS) as pool:
        running = [pool.submit(write, session) for session in range(SESSIONS)]
        begin.wait()
        start_ns = time.monotonic_ns()
        begin.wait()
        for session in running:
            session.result()
    for number, at_ns in sorted(commit for of_session in commits for commit in of_session):
        sys.stdout.write(f"{number} {at_ns}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
