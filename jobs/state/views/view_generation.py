"""One generation of a view as the state database keeps it: its plan, and two tables of its own.

``dirty.v<id>`` holds the keys whose rows have to be made anew, with the batch that dirtied each
last (``seq``) and first (``first_seq``) since it was clean. ``shown.v<id>`` holds a digest of what
the store was given for each key: what has not changed is not written again, and a key whose row
is gone is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import psycopg

from cdc.errors import ViewError
from jobs.state.groups.sums import GroupSums
from jobs.state.server.connection import Connection
from jobs.state.values.event_texts import event_text
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_names import ViewNames
from views.maintain.plan import ViewPlan

Relation = Callable[[str], str]
"""From ``schema.table`` to the relation of its mirror, as SQL."""

_NUMBERS: Final = {"numeric", "float4", "float8"}
DIRTY_SCHEMA, SHOWN_SCHEMA = "dirty", "shown"


def quoted(name: str) -> str:
    """An identifier of PostgreSQL, whatever it holds; without percent signs, which psycopg would
    take for its own in statements with parameters."""
    text = name.replace('"', '""')
    if "%" not in text:
        return f'"{text}"'
    text = text.replace("\\", "\\\\").replace("%", "\\0025")
    return f'U&"{text}"'


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a view's key. ``type`` is what ``format_type`` calls it in the state database."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class ViewGeneration:
    """``id`` numbers the generation among those of all views of the state database.

    ``relation`` gives mirrors with the columns that the plan knows, ``names`` does so of images.
    ``groups`` are those that batches keep by the change (``jobs.state.groups.tables``).
    """

    id: int
    name: str
    generation: int
    plan: ViewPlan
    key: tuple[KeyColumn, ...]
    relation: Relation
    names: ViewNames = field(default_factory=ViewNames)
    groups: GroupSums | None = None
    first_columns: tuple[str, ...] = ()
    """What it had when its store was filled; () where that is not known."""

    @property
    def dirty(self) -> str:
        return f"{DIRTY_SCHEMA}.v{self.id}"

    @property
    def shown(self) -> str:
        return f"{SHOWN_SCHEMA}.v{self.id}"

    def rows(self, keys: str) -> str:
        """SELECT: the view's rows whose key is in the relation ``keys``."""
        if self.groups is None:
            return self.plan.rows(self.relation, keys)
        return self.groups.plan.rows(self.relation, self.groups.shown(keys), keys)

    @property
    def key_names(self) -> str:
        """The key's columns, quoted, with commas."""
        return ", ".join(quoted(column.name) for column in self.key)


def make_tables(conn: Connection, view_id: int, plan: ViewPlan, relation: Relation) -> None:
    """Make the tables of a generation; their columns have the types that the view's SQL gives."""
    names = ", ".join(map(quoted, plan.key))
    alters = [f"alter {quoted(name)} set not null" for name in plan.key]
    beside = own_columns([KeyColumn(name, "") for name in plan.key])
    for schema in (DIRTY_SCHEMA, SHOWN_SCHEMA):
        table = f"{schema}.v{view_id}"
        own = (
            [
                f"add {beside.seq} bigint not null",
                f"add {beside.first_seq} bigint not null",
                "set (fillfactor = 70)",  # a key is dirtied again and again: room in each page
            ]
            if schema == DIRTY_SCHEMA
            else [f"add {beside.digest} uuid not null"]
        )
        made = f"select {names} from ({plan.whole(relation)}) w"
        conn.execute(f"create table {table} as {made} with no data".encode())
        actions = ", ".join([*alters, *own, f"add primary key ({names})"])
        conn.execute(f"alter table {table} {actions}".encode())
    conn.execute(f"create index on {DIRTY_SCHEMA}.v{view_id} ({beside.first_seq})".encode())


def follow_key_types(conn: Connection, view_id: int, plan: ViewPlan, relation: Relation) -> None:
    """Give the tables of a generation the types that its key has now, where DDL has changed them:
    what they hold is read as the same values. Raises ``ViewError`` where it cannot be, or where
    the store has a row under another text."""
    held = _key_types(conn, f"{SHOWN_SCHEMA}.v{view_id}", plan)
    wanted = _key_types(conn, f"({plan.whole(relation)})", plan)
    changed = [
        (quoted(name), old, new)
        for name, old, new in zip(plan.key, held, wanted, strict=True)
        if old.name != new.name
    ]
    if not changed:
        return
    actions = ", ".join(
        f"alter {column} type {new.name} using {column}::text::{new.name}"
        for column, _, new in changed
    )
    try:
        with conn.transaction():
            for column, old, new in changed:
                _refuse_other_texts(conn, view_id, plan.name, column, old, new)
            for schema in (DIRTY_SCHEMA, SHOWN_SCHEMA):
                conn.execute(f"alter table {schema}.v{view_id} {actions}".encode())
    except psycopg.DataError as error:
        raise ViewError(
            f"view {plan.name}: its key ({', '.join(plan.key)}) changed to a type that cannot "
            "hold its old keys",
            f"run `headwater view rebuild {plan.name}`",
        ) from error


@dataclass(frozen=True, slots=True)
class _KeyType:
    """``name`` as ``format_type`` has it, ``base`` as ``event_text`` takes it."""

    name: str
    base: str
    typmod: int


def _key_types(conn: Connection, rows: str, plan: ViewPlan) -> list[_KeyType]:
    """Of the key's columns in a relation or subquery."""
    names = ", ".join(map(quoted, plan.key))
    cursor = conn.execute(f"select {names} from {rows} k limit 0".encode(), prepare=False)
    result = cursor.pgresult
    assert result is not None, "a SELECT has a result"
    query = (
        b"select pg_catalog.format_type(oid, %s), typname from pg_catalog.pg_type where oid = %s"
    )
    found = []
    for number in range(len(plan.key)):
        typmod = result.fmod(number)
        ((name, base),) = conn.execute(query, (typmod, result.ftype(number))).fetchall()
        found.append(_KeyType(name, base, typmod))
    return found


def _refuse_other_texts(
    conn: Connection, view_id: int, view: str, column: str, old: _KeyType, new: _KeyType
) -> None:
    """Raise ``ViewError`` where a key that the store has is another text under its new type, as
    ``char(n)`` is under another length. Of numbers the store says itself what it can hold."""
    if new.base in _NUMBERS:
        return
    was = event_text(old.base, old.typmod, column)
    now = event_text(new.base, new.typmod, f"({column}::text::{new.name})")
    query = f"select exists (select from {SHOWN_SCHEMA}.v{view_id} where {was} <> {now})"
    if conn.execute(query.encode()).fetchone() == (True,):
        raise ViewError(
            f"view {view}: its key column {column} was {old.name} and is {new.name} now, which "
            "gives its values another text: the store would hold their rows twice",
            f"run `headwater view rebuild {view}`",
        )


def read_key(conn: Connection, view_id: int, plan: ViewPlan) -> tuple[KeyColumn, ...]:
    """The columns of the key, as the tables of a generation have them."""
    query = (
        b"select attname, pg_catalog.format_type(atttypid, atttypmod) from pg_catalog.pg_attribute "
        b"where attrelid = %s::regclass and attname = any(%s)"
    )
    rows = conn.execute(query, (f"{DIRTY_SCHEMA}.v{view_id}", list(plan.key)))
    types = dict(rows.fetchall())
    return tuple(KeyColumn(name, types[name]) for name in plan.key)
