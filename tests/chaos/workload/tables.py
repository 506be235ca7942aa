"""The tables of a run: every shape that capture treats differently.

All have a number of the row (``Table.id``), ``token`` (unique to every version of every row, from
one sequence) and ``n`` (how often the row was updated since its insert). From these two the
checker tells whether an event was lost, doubled or swapped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg

TOKENS: Final = "chaos_token"
LEDGER: Final = "private.ledger"
"""Not captured. Each transaction leaves its name there, so that its end can be looked up."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table. ``numbered`` gives, by column, what a row of number ``{i}`` holds."""

    name: str
    definition: str
    schema: str = "public"
    numbered: dict[str, str] = field(default_factory=lambda: {"id": "{i}"})
    on_insert: dict[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ("id",)
    """Columns of the event key; empty when its events have none."""
    full: bool = False
    """Events of deletes hold the whole old row."""
    large: tuple[str, ...] = ()
    """Columns stored out of line."""
    altered: bool = False
    """DDL may come at any moment."""
    grows: bool = False
    """Its DDL is but of added columns."""
    truncated_with: tuple[str, ...] = ()
    """Tables that CASCADE takes along."""
    joins: bool = False
    """It is not captured before ``headwater table add`` has it join the others."""

    @property
    def label(self) -> str:
        """``schema.table`` as Kafka and the configuration name it."""
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """The quoted name, for psycopg."""
        return f"{quoted(self.schema)}.{quoted(self.name)}".replace("%", "%%")

    @property
    def id(self) -> str:
        """The column that holds the row's number, quoted."""
        return quoted(next(iter(self.numbered)))


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


_COMMON: Final = "token bigint not null, n int not null, extra int"
_TOUCHED: Final = f"{_COMMON}, noted int"
"""The last column is renamed, or dropped for another one that is called nearly so."""
_LARGE: Final = "big text, bigger text"
_EXTERNAL: Final = "alter column big set storage external, alter column bigger set storage external"

_HELD: Final = 50_000_000
_HELD_ROWS: Final = 2_000
"""Rows that nobody writes, and their first number: to read them takes several chunks."""

TABLES: Final[tuple[Table, ...]] = (
    Table("item", f"create table {{t}} (id int primary key, {_COMMON})", altered=True),
    Table(
        "wide",
        f"create table {{t}} (id int not null, tenant text, ref uuid, {_TOUCHED}, {_LARGE},"
        f" primary key (tenant, ref)); alter table {{t}} {_EXTERNAL}",
        numbered={"id": "{i}", "tenant": "'t' || {i} % 3", "ref": "md5(({i})::text)::uuid"},
        key=("tenant", "ref"),
        large=("big", "bigger"),
        altered=True,
    ),
    Table(
        "keyed_by_choice",
        f"create table {{t}} (id int not null unique, {_COMMON}, {_LARGE});"
        f"alter table {{t}} {_EXTERNAL}; alter table {{t}} replica identity full",
        full=True,
        large=("big", "bigger"),
    ),
    Table(
        "no_key",
        f"create table {{t}} (id int, {_COMMON}, {_LARGE});"
        f"alter table {{t}} {_EXTERNAL}; alter table {{t}} replica identity full",
        key=(),
        full=True,
        large=("big", "bigger"),
    ),
    Table(
        "coded",
        f"create table {{t}} (id int primary key, code text not null, {_TOUCHED});"
        "create unique index coded_code on {t} (code);"
        "alter table {t} replica identity using index coded_code",
        numbered={"id": "{i}", "code": "'Köln-' || {i}"},
        key=("code",),
        altered=True,
    ),
    Table(
        "parts",
        f"create table {{t}} (id int, region int, {_COMMON}, primary key (id, region))"
        " partition by list (region);"
        "create table parts_0 partition of {t} for values in (0);"
        "create table parts_1 partition of {t} for values in (1);"
        "create table parts_rest partition of {t} default",
        on_insert={"region": "{i} % 3"},
        key=("id", "region"),
    ),
    Table(
        'Straße "1" %s',
        f'create table {{t}} ("Größe" int primary key, {_TOUCHED})',
        schema="Süd",
        numbered={"Größe": "{i}"},
        key=("Größe",),
        altered=True,
    ),
    Table(
        "derived",
        f"create table {{t}} (id int primary key, {_COMMON},"
        " twice bigint generated always as (token * 2) stored)",
    ),
    Table(
        "parent",
        f"create table {{t}} (id int primary key, {_COMMON})",
        truncated_with=("public.child",),
    ),
    Table(
        "child",
        f"create table {{t}} (id int primary key, {_COMMON},"
        " parent int references parent on delete set null)",
    ),
    Table(
        "joining",
        f"create table {{t}} (id int primary key, {_COMMON});"
        f"insert into {{t}} select {_HELD} + i, nextval('{TOKENS}'), 0"
        f" from generate_series(1, {_HELD_ROWS}) i",
        schema="later",
        joins=True,
    ),
    Table("bulk", f"create table {{t}} (id int primary key, {_COMMON})"),
)
BY_LABEL: Final = {table.label: table for table in TABLES}
BULK: Final = BY_LABEL["public.bulk"]
JOINING: Final = BY_LABEL["later.joining"]
GROWING: Final = tuple(replace(one, grows=one.name == "item") for one in TABLES)
"""The same where a view reads all columns of the first."""
KEYS: Final = {"public.keyed_by_choice": ["id"]}
"""``source.keys``."""


def noted_column(conn: psycopg.Connection[Any], table: Table) -> str | None:
    """What the column ``noted`` is called now, where a table has it."""
    row = conn.execute(
        "select a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s"
        " and a.attnum > 0 and not a.attisdropped and a.attname ~ '^noted'",
        (table.schema, table.name),
    ).fetchone()
    return None if row is None else str(row[0])


def creation() -> list[str]:
    """The statements that make an empty database the source."""
    statements = [f"create sequence {TOKENS}"]
    statements += [f'create schema "{name}"' for name in ("Süd", "later", "private")]
    statements.append(f"create table {LEDGER} (id text primary key)")
    for table in TABLES:
        name = f"{quoted(table.schema)}.{quoted(table.name)}"
        statements += table.definition.format(t=name).split(";")
    return statements
