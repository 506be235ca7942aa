"""Writers: rows that move between blocks, keys and partitions, and keep large values.

What they do is drawn from a seed; how it interleaves is not. They are told nothing of snapshots.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from typing import Final

import psycopg

ROWS: Final = 3000
PAUSE_S: Final = 0.001
"""Of a writer, between two transactions: full speed."""
_STATEMENTS: Final = (
    # Rows of very different width, so blocks hold few or many; `big` always stands in TOAST.
    """create table public.item (
        id bigint primary key, kind int, small text, big text)""",
    "alter table public.item alter column big set storage external",
    """create table public.part (
        region text collate "C", id uuid, small text, big text, primary key (region, id)
    ) partition by list (region)""",
    "alter table public.part alter column big set storage external",
    "create table public.part_n partition of public.part for values in ('n', 'NaN')",
    """create table public.part_s partition of public.part for values in ('s')
        partition by hash (id)""",
    """create table public.part_s0 partition of public.part_s
        for values with (modulus 2, remainder 0)""",
    """create table public.part_s1 partition of public.part_s
        for values with (modulus 2, remainder 1)""",
    "create table public.bare (v int, note text)",
    "alter table public.bare replica identity full",
    f"""insert into public.item select i, i % 7, repeat('s', i % 300), repeat('b' || i, 800)
        from generate_series(1, {ROWS}) i""",
    f"""insert into public.part select (array['n', 's', 'NaN'])[i % 3 + 1],
        md5(i::text)::uuid, repeat('p', i % 200), repeat('q' || i, 800)
        from generate_series(1, {ROWS // 3}) i""",
    f"insert into public.bare select i % 50, repeat('x', i % 90) from generate_series(1, {ROWS}) i",
    "analyze",
)
_BIG: Final = "repeat(md5(random()::text), 100)"


def make_tables(dsn: str) -> None:
    """The tables with their first rows."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in _STATEMENTS:
            conn.execute(statement.encode())


class Writers:
    """Threads that write until ``stop``. A server that is away is waited for."""

    def __init__(self, dsn: str, seed: int, pause_s: float = PAUSE_S, threads: int = 3) -> None:
        self.transactions = 0
        self._dsn, self._pause_s = dsn, pause_s
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(random.Random(f"{seed} {n}"),))
            for n in range(threads)
        ]
        self._threads.append(threading.Thread(target=self._vacuum))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, rng: random.Random) -> None:
        while not self._stop.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(self._dsn) as conn:
                while not self._stop.is_set():
                    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                        _transaction(conn, rng)
                        self.transactions += 1
                    self._stop.wait(self._pause_s)
            self._stop.wait(0.1)

    def _vacuum(self) -> None:
        """Frees room in early blocks, which rows of late ones then move into."""
        while not self._stop.wait(0.2):
            with (
                suppress(psycopg.Error),
                psycopg.connect(self._dsn, autocommit=True) as conn,
            ):
                conn.execute("vacuum public.item, public.part, public.bare")


def _transaction(conn: psycopg.Connection[tuple[object, ...]], rng: random.Random) -> None:
    """Some statements, with savepoints some of which are rolled back; now and then all of it."""
    with conn.transaction(force_rollback=rng.random() < 0.1):
        for _ in range(rng.choice((1, 1, 2, 5))):
            with conn.transaction(force_rollback=rng.random() < 0.15):
                conn.execute(_statement(rng).encode())


def _statement(rng: random.Random) -> str:
    key = rng.randint(1, ROWS * 2)
    small = f"repeat('{rng.choice('uvwxyz')}', {rng.choice((1, 50, 400))})"
    part = f"id = md5({rng.randint(1, ROWS // 3)}::text)::uuid"
    return rng.choices(
        [
            f"update public.item set small = {small} where id = {key}",  # `big` stays
            f"update public.item set id = {rng.randint(1, ROWS * 2)} where id = {key}",
            f"update public.item set big = {_BIG} where id = {key}",
            f"delete from public.item where id between {key} and {key + rng.randint(0, 3)}",
            # `kind` is nobody else's, so no other row is taken for this one.
            f"insert into public.item values ({key}, {rng.randint(1000, 10**9)}, {small}, {_BIG})"
            " on conflict do nothing",
            f"update public.part set region = '{rng.choice(['n', 's', 'NaN'])}' where {part}",
            f"update public.part set small = {small} where {part}",
            f"update public.bare set v = v + 1 where v = {rng.randint(0, 60)} and ctid = any("
            f"array(select ctid from public.bare where v = {rng.randint(0, 60)} limit 2))",
            f"insert into public.bare values ({rng.randint(0, 50)}, {small})",
            "delete from public.bare where ctid = any(array(select ctid from public.bare "
            f"where v = {rng.randint(0, 60)} limit 1))",
        ],
        [30, 10, 5, 6, 12, 10, 10, 6, 4, 3],
    )[0]
