"""Random changes for the comparison with Debezium: the same seed gives the same statements."""

from __future__ import annotations

import random
from typing import Any, Final

import psycopg

TABLES: Final = """
create table r_usual (id int primary key, a text, b text, n numeric(12,3), at timestamptz);
create table r_whole (id int primary key, a text, b text);
create table r_pair (a int, b text, c text, primary key (b, a));
create table r_keyless (a int, b text);
alter table r_usual alter b set storage external;
alter table r_whole alter b set storage external;
alter table r_whole replica identity full;
alter table r_keyless replica identity full;
"""
_ROWS: Final = 40
_TEXTS: Final = ("", "a", 'q"\\', "é😀\n", "NULL", "\u2028", "0")


def run(connection: psycopg.Connection[Any], seed: int, transactions: int) -> None:
    """That many transactions, a few of them rolled back, in part or as a whole."""
    rng = random.Random(seed)
    for _ in range(transactions):
        with connection.transaction() as transaction:
            for _ in range(rng.choice([1, 1, 2, 5, 20])):
                with connection.transaction() as savepoint:
                    _change(connection, rng)
                    if rng.random() < 0.05:
                        raise psycopg.Rollback(savepoint)
            if rng.random() < 0.05:
                raise psycopg.Rollback(transaction)


def _change(connection: psycopg.Connection[Any], rng: random.Random) -> None:
    key, other = rng.randrange(_ROWS), rng.randrange(_ROWS)
    text = rng.choice(_TEXTS) + str(rng.randrange(1000))
    large = f"{text}-" * 3000 if rng.random() < 0.5 else text
    match rng.randrange(16):
        case 0 | 1 | 2:
            connection.execute(
                "insert into r_usual values (%s, %s, %s, %s, to_timestamp(%s)) on conflict (id)"
                " do update set a = excluded.a, n = excluded.n",
                (key, text, large, rng.randrange(10**6), rng.randrange(2 * 10**9)),
            )
        case 3:
            connection.execute("update r_usual set a = %s where id < %s", (text, key))
        case 4:
            _move(connection, "r_usual", key, other)
        case 5:
            connection.execute("delete from r_usual where id = %s", [key])
        case 6 | 7:
            connection.execute(
                "insert into r_whole values (%s, %s, %s) on conflict (id)"
                " do update set a = excluded.a",
                (key, text, large),
            )
        case 8:
            _move(connection, "r_whole", key, other)
        case 9:
            connection.execute("delete from r_whole where id = %s", [key])
        case 10:
            connection.execute(
                "insert into r_pair values (%s, %s, %s) on conflict (a, b) do update"
                " set c = excluded.c, a = (select max(a) + 7 from r_pair)",
                (key % 7, str(other % 3), text),
            )
        case 11:
            connection.execute("delete from r_pair where a %% 7 = %s", [key % 7])
        case 12:
            connection.execute("insert into r_keyless values (%s, %s)", (key, text))
        case 13:
            connection.execute("update r_keyless set b = %s where a = %s", (text, key))
            connection.execute("delete from r_keyless where a = %s", [other])
        case 14:
            connection.execute("select pg_logical_emit_message(true, 'random', %s)", [text])
        case _:
            _many(connection, rng, text)


def _move(connection: psycopg.Connection[Any], table: str, key: int, to: int) -> None:
    connection.execute(
        f"update {table} set id = %s where id = %s and not exists"
        f" (select from {table} where id = %s)",
        (to, key, to),
    )


def _many(connection: psycopg.Connection[Any], rng: random.Random, text: str) -> None:
    """What rarely happens: a truncate, or rows enough to go by column."""
    if rng.random() < 0.2:
        connection.execute(rng.choice(["truncate r_usual", "truncate r_whole, r_pair"]))
    elif rng.random() < 0.5:
        low = rng.randrange(1000, 100_000)
        connection.execute(
            "insert into r_usual select i, %s, null, i / 8.0, 'epoch'"
            " from generate_series(%s::int, %s) i on conflict do nothing",
            (text, low, low + 400),
        )
    else:
        connection.execute("update r_usual set a = %s where id >= 1000", [text])
        connection.execute("delete from r_usual where id >= 1000 and id % 2 = 0")
