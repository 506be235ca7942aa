"""A shop's changes, of each kind that a consumer has to get right, and rows of all usual types.

Some rows are there before capture begins. The last transaction changes each table once more, so
that a consumer which stopped early is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import errors

LARGE: Final = "x" * 3_000
"""Stored out of line, so that an update of other columns does not log it."""

TABLES: Final = """
create type mood as enum ('sad', 'ok ok');
create table customers (id int primary key, name varchar(40) not null, city text);
create table orders (
    id bigint primary key, customer_id int not null, total numeric(10,2) not null,
    shipped boolean not null, placed timestamptz, due date, note text);
alter table orders alter note set storage external;
alter table orders replica identity full;
create table order_lines (
    order_id bigint, line smallint, sku text not null, price double precision,
    primary key (order_id, line));
create table kinds (
    id int primary key, i2 smallint, i4 int, i8 bigint, r4 real, f8 double precision,
    n numeric(12,3), yes boolean, t text, vc varchar(20), c char(4), u uuid, e mood, j json,
    jb jsonb, ip inet, b bytea, d date, tm time, ts timestamp, ts3 timestamp(3), tz timestamptz);
create table extremes (id int primary key, f8 double precision, r4 real);
create table articles (id int primary key, title text, body text);
alter table articles alter body set storage external;
create table visits (id int primary key, page text);
"""
NAMES: Final = ("customers", "orders", "order_lines", "kinds")
"""Tables that a consumer keeps equal to the source."""
SPECIAL: Final = ("extremes", "articles", "visits")
"""Tables with what a consumer may take for something else: floats that are no JSON numbers, a
large value that an update leaves out, and TRUNCATE."""
PLACEHOLDER: Final = [(1, "second", "__debezium_unavailable_value")]
"""The articles of a consumer that takes the placeholder for a value."""
NOT_TRUNCATED: Final = [(1, "a"), (2, "b"), (3, "c")]
"""The visits of a consumer that never heard of TRUNCATE, which the preset leaves out."""

BEFORE: Final[Sequence[str]] = (
    "insert into customers values (1, 'Ada', 'London'), (2, 'Bob', null), (3, 'Cyd', 'Ulm')",
    "insert into orders values (1, 1, 12.50, false, '2024-02-29 12:00:00.5+00', '2024-03-01',"
    f" '{LARGE}'), (2, 2, 0.00, true, null, null, null)",
    "insert into order_lines values (1, 1, 'Zwiebel', 2.5), (1, 2, 'Kohl', 1e20)",
    "insert into kinds (id) values (1)",
    f"insert into articles values (1, 'first', '{LARGE}')",
    "insert into visits values (1, 'a'), (2, 'b')",
)

CHANGES: Final[Sequence[Sequence[str]]] = (
    (
        "insert into customers values (4, 'Dag', 'Øresund 😀 \"q\"')",
        "insert into orders values (3, 4, -99999999.99, false, '1969-12-31 23:59:59.999999+00',"
        f" '0001-01-01', '{LARGE}'), (4, 4, 1.00, false, now(), current_date, '')",
        "insert into order_lines values (3, 1, 'Lauch', null), (4, 1, 'Rübe', -0.1)",
    ),
    ("update customers set city = 'Bonn' where id = 2",),
    # The large value stays.
    ("update orders set shipped = true where id in (1, 3)",),
    # Deleted, and inserted again, also in one transaction.
    ("delete from customers where id = 3",),
    ("insert into customers values (3, 'Eve', null)",),
    ("delete from customers where id = 1", "insert into customers values (1, 'Fay', 'Rom')"),
    # Other keys; one that somebody had.
    ("update customers set id = 40 where id = 4",),
    ("update orders set id = 30 where id = 3",),
    ("update order_lines set line = 9 where order_id = 1 and line = 2",),
    ("delete from order_lines where order_id = 3",),
    ("update order_lines set order_id = 3 where order_id = 4",),
    (
        "insert into kinds values (2, -32768, 2147483647, -9223372036854775808, 1.5, 0.1, -0.001,"
        " true, '', 'ä', 'ab', '550e8400-e29b-41d4-a716-446655440000', 'ok ok',"
        " '{\"a\":  [1, null]}', '{\"b\": 1.50}', '10.0.0.1', '\\x00ff10', '2024-02-29',"
        " '12:34:56.123456', '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.12',"
        " '2024-02-29 12:34:56.123456+00')",
        "insert into kinds values (3, 0, 0, 0, 0, 0, 123456789.125, false, 'NULL', ' x ', '',"
        " '00000000-0000-0000-0000-000000000000', 'sad', 'null', '[]', '::1', '', '1969-07-20',"
        " '00:00:00', '1969-12-31 23:59:59.5', '1970-01-01', '2038-01-19 03:14:08+00')",
    ),
    ("update kinds set i2 = 7, b = null, n = 0 where id = 3",),
    ("delete from kinds where id = 1",),
    ("insert into extremes values (1, 'NaN', 'NaN'), (2, 'Infinity', '-Infinity')",),
    ("update articles set title = 'second'",),
    ("truncate visits",),
    ("insert into visits values (3, 'c')",),
    (
        "update customers set name = name || '.'",
        "update orders set total = total + 1",
        "update order_lines set sku = sku || '.'",
        "update kinds set t = 'end'",
    ),
)
ROLLED_BACK: Final[Sequence[str]] = (
    "insert into customers values (77, 'never', null)",
    "update orders set total = 0",
    "delete from kinds",
)


def prepare(dsn: str, full: bool = False) -> None:
    """The tables, with the rows that a snapshot reads; ``full``: all with REPLICA IDENTITY FULL."""
    identities = [
        f"alter table {name} replica identity full" for name in (*NAMES, *SPECIAL) if full
    ]
    _run(dsn, [(TABLES, *identities), BEFORE])


def change(dsn: str) -> None:
    """All changes, the rolled back ones among them."""
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        suppress(psycopg.Rollback),
        connection.transaction(),
    ):
        for statement in ROLLED_BACK:
            connection.execute(statement.encode())
        raise psycopg.Rollback
    _run(dsn, CHANGES)


_MICROSECONDS: Final = "(extract(epoch from {}) * 1000000)::bigint"
_COLUMNS: Final = {
    "customers": "id name city",
    "orders": "id customer_id total shipped placed due note",
    "order_lines": "order_id line sku price",
    "kinds": "id i2 i4 i8 r4 f8 n yes t vc c u e j jb ip b d tm ts ts3 tz",
    "extremes": "id f8 r4",
    "articles": "id title body",
    "visits": "id page",
}
_PLAIN: Final = {
    **{name: f"{name} at time zone 'UTC'" for name in ("placed", "tz")},
    **{name: f"{name}::text" for name in ("u", "e", "j", "jb")},
    "ip": "host(ip)",
    **{name: _MICROSECONDS.format(name) for name in ("tm", "ts")},
    "ts3": "(extract(epoch from ts3) * 1000)::bigint",
    "body": "left(body, 30)",
}
PLAIN: Final = {
    table: {name: _PLAIN.get(name, name) for name in names.split()}
    for table, names in _COLUMNS.items()
}
"""The columns of each table in types that every system has: times as they are counted."""


def rows(dsn: str, table: str, columns: Sequence[str] = ()) -> list[tuple[str | None, ...]]:
    """A table as text, in the order of its text; ``columns`` are expressions, all by default."""
    with psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC") as connection:
        chosen = ", ".join(f"({column})::text" for column in columns or names(connection, table))
        return sorted(connection.execute(f"select {chosen} from {table}".encode()), key=str)


def values(dsn: str, table: str) -> list[tuple[Any, ...]]:
    """A table's plain columns as values of Python, in the order of their text."""
    return kept(dsn, table, [*PLAIN[table].values()])


def kept(dsn: str, table: str, columns: Iterable[str] = ("*",)) -> list[tuple[Any, ...]]:
    """The same of a table that holds what a consumer made of them; none where it is not there."""
    with psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC") as connection:
        try:
            found = connection.execute(f"select {', '.join(columns)} from {table}".encode())
        except errors.UndefinedTable:
            return []
        return sorted(found, key=str)


def names(connection: psycopg.Connection[tuple[object, ...]], table: str) -> list[str]:
    """Of the columns of a table."""
    found = connection.execute(
        "select attname::text from pg_attribute where attrelid = %s::regclass and attnum > 0"
        " and not attisdropped order by attnum",
        [table],
    )
    return [str(name) for (name,) in found]


def _run(dsn: str, transactions: Sequence[Sequence[str]]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for transaction in transactions:
            with connection.transaction():
                for statement in transaction:
                    connection.execute(statement.encode())
