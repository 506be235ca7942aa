"""The rows that are measured, and in what transactions they come. Pure.

Every row is made of its number ``i``, so whoever loads a table gives the same bytes. Texts are
hexadecimal without repetition: no codec makes the events smaller than those of real text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Column(NamedTuple):
    """A column and the SQL expression of ``i`` that fills it. No ``%``: psycopg reads that."""

    name: str
    type: str
    value: str


class Shape(NamedTuple):
    """A table's columns; the first is its key."""

    name: str
    columns: tuple[Column, ...]

    def create(self, table: str) -> bytes:
        """CREATE TABLE. Autovacuum would start in the middle of what is measured."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        return (
            f"create table public.{table} ({columns}, primary key ({self.columns[0].name}))"
            " with (autovacuum_enabled = off)"
        ).encode()

    def insert(self, table: str, first: int | str, last: int | str) -> bytes:
        """INSERT of the rows from ``first`` to ``last``: numbers, names or placeholders."""
        values = ", ".join(column.value for column in self.columns)
        series = f"generate_series({first}::bigint, {last}::bigint) as i"
        return f"insert into public.{table} select {values} from {series}".encode()

    @property
    def names(self) -> str:
        """The columns' names, as a SELECT list."""
        return ", ".join(column.name for column in self.columns)


_ID: Final = Column("id", "bigint", "i")
_KINDS: Final = (
    ("bigint", "i * {k}"),
    ("integer", "mod(i * {k}, 100003)::int"),
    ("smallint", "mod(i + {k}, 30000)::int2"),
    ("boolean", "mod(i, 2) = 0"),
    ("numeric(12, 2)", "mod(i * {k}, 1000000) / 100.0"),
    ("double precision", "i / {k}.7"),
    ("text", "case when mod(i, 7) = 0 then null else md5((i + {k})::text) end"),
    ("varchar(40)", "substr(md5((i * {k})::text), 1, 12)"),
    ("date", "date '2026-01-01' + mod(i + {k}, 365)::int"),
    ("timestamp", "timestamp '2026-01-01 00:00:00.654321' + i * interval '{k} second'"),
    ("timestamptz", "timestamptz '2026-01-01 00:00:00.123456+00' + i * interval '{k} second'"),
    ("uuid", "md5((i - {k})::text)::uuid"),
    ("jsonb", "jsonb_build_object('n', i, 'k', {k})"),
)
_WIDE_COLUMNS: Final = 60

NARROW: Final = Shape(
    "narrow",
    (
        _ID,
        Column("customer_id", "integer not null", "mod(i * 7919, 100003)::int"),
        Column("status", "text not null", "(array['new', 'paid', 'sent', 'back'])[1 + mod(i, 4)]"),
    ),
)
USUAL: Final = Shape(
    "usual",
    (
        *NARROW.columns,
        Column("total", "numeric(12, 2) not null", "mod(i, 1000000) / 100.0"),
        Column(
            "note",
            "text not null",
            "md5(i::text) || md5((-i)::text) || md5((i + 0.1)::text) || md5((i + 0.2)::text)"
            " || substr(md5((i + 0.3)::text), 1, 16)",
        ),
        Column(
            "ordered_at",
            "timestamptz not null",
            "timestamptz '2026-01-01 00:00:00.123456+00' + i * interval '1 second'",
        ),
        Column(
            "updated_at",
            "timestamp not null",
            "timestamp '2026-01-01 00:00:00.654321' + i * interval '1 second'",
        ),
    ),
)
CUSTOMERS: Final = Shape(
    "customers",
    (
        Column("id", "integer", "i::int"),
        Column("name", "text not null", "'customer ' || md5(i::text)"),
        Column("city", "text not null", "'city ' || mod(i, 500)"),
        Column("credit", "numeric(12, 2) not null", "mod(i, 1000000) / 100.0"),
    ),
)
"""What a view joins orders with."""
STRIDE: Final = 7919
"""A prime: ``i * STRIDE`` modulo a power of ten goes to all rows, neighbours far apart."""


def orders_of(customers: int) -> Shape:
    """Usual rows that belong to so many customers, each of whom has about as many of them."""
    belongs = f"1 + mod(i * {STRIDE}, {customers})::int"
    return Shape(
        "orders",
        tuple(
            column._replace(value=belongs) if column.name == "customer_id" else column
            for column in USUAL.columns
        ),
    )


WIDE: Final = Shape(
    "wide",
    (
        _ID,
        *(
            Column(f"c{k}", kind, value.format(k=k))
            for k in range(1, _WIDE_COLUMNS)
            for kind, value in [_KINDS[k % len(_KINDS)]]
        ),
    ),
)


class Race(NamedTuple):
    """Rows of one shape, so many a transaction; ``share`` of the rows of a full measurement."""

    shape: Shape
    transaction_rows: int
    share: float

    @property
    def name(self) -> str:
        """``narrow_1row``: what figures are called by."""
        return f"{self.shape.name}_{self.transaction_rows}row"


class RaceForm(NamedTuple):
    """Lines of ``[events]``, and the settings of a connector that say the same."""

    name: str
    events: str
    connector: Mapping[str, str]


OUR_FORM: Final = RaceForm("", "", {})
RACES: Final = (
    Race(NARROW, 1_000, 1.0),
    Race(USUAL, 1_000, 1.0),
    Race(WIDE, 1_000, 0.2),
    Race(NARROW, 1, 0.3),
    Race(USUAL, 1, 0.3),
    Race(WIDE, 1, 0.2),
)
"""As many rows as take the fastest of the racers a second at least."""
