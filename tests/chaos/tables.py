"""The tables of a run: every shape that capture treats differently.

All have a number of the row (``Table.id``), ``token`` (unique to every version of every row, from
one sequence) and ``n`` (how often the row was updated since its insert). From these two the
checker tells whether an event was lost, doubled or swapped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

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
_LARGE: Final = "big text, bigger text"
_EXTERNAL: Final = "alter column big set storage external, alter column bigger set storage external"

TABLES: Final[tuple[Table, ...]] = (
    Table("item", f"create table {{t}} (id int primary key, {_COMMON})", altered=True),
    Table(
        "wide",
        f"create table {{t}} (id int not null, tenant text, ref uuid, {_COMMON}, {_LARGE},"
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
        f"create table {{t}} (id int primary key, code text not null, {_COMMON});"
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
        f'create table {{t}} ("Größe" int primary key, {_COMMON})',
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
    Table("bulk", f"create table {{t}} (id int primary key, {_COMMON})"),
)
BY_LABEL: Final = {table.label: table for table in TABLES}
BULK: Final = BY_LABEL["public.bulk"]
GROWING: Final = tuple(replace(one, grows=one.name == "item") for one in TABLES)
"""The same where a view reads all columns of the first."""
KEYS: Final = {"public.keyed_by_choice": ["id"]}
"""``source.keys``."""


def creation() -> list[str]:
    """The statements that make an empty database the source."""
    statements = [f"create sequence {TOKENS}", 'create schema "Süd"', "create schema private"]
    statements.append(f"create table {LEDGER} (id text primary key)")
    for table in TABLES:
        name = f"{quoted(table.schema)}.{quoted(table.name)}"
        statements += table.definition.format(t=name).split(";")
    return statements
