"""The source's own types, made again in the state database.

They are made before the mirrors that need them, each in a transaction of its own: a label of an
enum cannot be used in the transaction that adds it. A label that the source has renamed changes
rows: only who makes up for that renames it here (``jobs.state.mirrors.type_changes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psycopg

from cdc.errors import RetryableError
from cdc.source.postgres import Connection, identifier, literal
from jobs.state.mirrors.collations import Collations
from jobs.state.mirrors.enum_labels import EnumLabels, label_statements, noted_labels, relabelled
from jobs.state.mirrors.source_types import (
    TEXT,
    SourceType,
    SourceTypes,
    formatted,
    is_kept_as_text,
    read_source_types,
    type_name,
)
from jobs.state.mirrors.table import TYPE_SCHEMA, one_identifier
from jobs.state.server.connection import translated

_EXTENSION = "create extension if not exists {name} with schema {schema}"
_MADE = """
select pg_catalog.obj_description(t.oid, 'pg_type')
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where n.nspname = %s and t.typname = %s
"""


_FIELDS = """
select a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.typrelid = a.attrelid
where t.oid = %s::regtype and a.attnum > 0 and not a.attisdropped order by a.attnum
"""


class ColumnType(NamedTuple):
    """``sql`` with its typmod; ``is_text``: the text of a type that is not there."""

    sql: str
    is_text: bool = False


class MirrorTypes:
    """The types of one source in the state database; both sessions commit each statement."""

    def __init__(self, source: Connection, state: Connection, *, renames: bool = False) -> None:
        self._source, self._state, self._renames = source, state, renames
        self.known: SourceTypes = read_source_types(source)
        self.collations = Collations(source, state)
        self._called: dict[tuple[int, int], str] = {}
        self._there: dict[str, bool] = {}
        self._text: set[int] = set()
        """Types that the state database cannot have."""
        self._ready: set[int] = set()
        self.changed: list[str] = []
        """Types of the state database that were brought up to date, as SQL."""
        self.replaced: set[str] = set()
        """Those of them that mirrors have in their old form."""
        self.renamed: dict[int, bool] = {}
        """Enums with labels that were renamed; True where an event's label may be one or another
        of them."""

    def refresh(self) -> None:
        """Read the types of the source again: some were made or changed."""
        self.known = read_source_types(self._source)
        self._called.clear()
        self._text.clear()
        self._ready.clear()

    def column(self, oid: int, typmod: int) -> ColumnType:
        """What a column of that type is in the mirror; its type is made where it is not there."""
        self._make([oid])
        return self._column(oid, typmod)

    def _make(self, oids: Iterable[int]) -> None:
        for one in self.known.needed(oids):
            if one.oid in self._ready:
                continue
            if is_kept_as_text(one, self.known.money_digits) or not self._made(one):
                self._text.add(one.oid)
            self._ready.add(one.oid)

    def _column(self, oid: int, typmod: int) -> ColumnType:
        one = self.known.types[oid]
        if one.kind == "d":
            return self._column(one.base, typmod if typmod != -1 else one.typmod)
        if one.element:
            element = self.known.types[one.element]
            item = self._column(element.oid, typmod)
            return ColumnType(f"{item.sql}[]", item.is_text)
        if oid in self._text:
            return ColumnType(TEXT, is_text=True)
        if self._is_own(one):
            return ColumnType(type_name(one.schema, one.name))
        return ColumnType(self._formatted(oid, typmod))

    @staticmethod
    def _is_own(one: SourceType) -> bool:
        return one.schema != "pg_catalog" and one.extension is None

    def _formatted(self, oid: int, typmod: int) -> str:
        if (oid, typmod) not in self._called:
            self._called.update(formatted(self._source, [(oid, typmod)]))
        return self._called[oid, typmod]

    def _made(self, one: SourceType) -> bool:
        """Make a type if it is not there; whether the state database has it then."""
        if one.element:
            return True
        if not self._is_own(one):
            if one.extension is not None:
                self._extend(one.extension, one.extension_schema or "public")
            return self._is_there(self._formatted(one.oid, -1))
        if any(part in self._text for part in self._base_of(one)):
            return False
        if self._of_now(one):
            return True
        made = any(self._tried(statement) for statement in self._creations(one))
        if made and one.kind == "e":
            self._note_labels(one)
        return made

    def _base_of(self, one: SourceType) -> Sequence[int]:
        """What it cannot be without. A composite's field may be text."""
        if one.kind == "r":
            return [self.known.ranges[one.oid].subtype]
        return [self.known.multiranges.get(one.oid, 0)]

    def _of_now(self, one: SourceType) -> bool:
        """Whether it is there as the source has it; enums are given the labels they lack."""
        name = one_identifier(one.schema, one.name)
        with translated(f"reading type {name} of the state database"):
            row = self._state.execute(_MADE, (TYPE_SCHEMA, name)).fetchone()
        if row is None:
            return False
        if one.kind == "e":
            self._relabel(one, row[0])
        return one.kind != "c" or self._has_fields(one, name)

    def _relabel(self, one: SourceType, comment: str | None) -> None:
        called, labels = type_name(one.schema, one.name), self.known.labels.get(one.oid, {})
        held = noted_labels(comment)
        if held.labels == labels:
            return
        change = relabelled(held, labels)
        if change.is_renamed and not self._renames:
            raise RetryableError(
                f"labels of the enum {one.schema}.{one.name} were renamed in the source",
                "wait: its mirrors follow within seconds",
            )
        with translated(f"changing the labels of {called}"):
            if change.is_other:
                self._make_way(called, one_identifier(one.schema, one.name))
                self._state.execute(self._creations(one)[0].encode())
            else:
                for statement in label_statements(called, held.labels, labels):
                    self._state.execute(statement.encode())
            self._note_labels(one, change.labels)
        self.changed.append(called)
        if change.is_renamed:
            self.renamed[one.oid] = change.is_unclear

    def _note_labels(self, one: SourceType, labels: EnumLabels | None = None) -> None:
        noted = labels or EnumLabels(self.known.labels.get(one.oid, {}))
        called = type_name(one.schema, one.name)
        self._state.execute(f"comment on type {called} is {literal(noted.comment)}".encode())

    def _make_way(self, called: str, name: str) -> None:
        """Another type gets the name; what mirrors have of this one stays as it is."""
        row = self._state.execute("select %s::regtype::oid::text", (called,)).fetchone()
        assert row is not None, "it is a function"
        old = identifier(one_identifier(name, f"old {row[0]}"))
        self._state.execute(f"comment on type {called} is null".encode())
        self._state.execute(f"alter type {called} rename to {old}".encode())

    def _has_fields(self, one: SourceType, name: str) -> bool:
        """Whether a composite has the source's fields; one that has not makes way."""
        wanted = [
            (part.name, self._column(part.type, part.typmod).sql)
            for part in self.known.fields.get(one.relation, ())
        ]
        called = type_name(one.schema, one.name)
        with translated(f"changing {called}"):
            if self._state.execute(_FIELDS, (called,)).fetchall() == wanted:
                return True
            self._make_way(called, name)
        self.changed.append(called)
        self.replaced.add(called)
        return False

    def _creations(self, one: SourceType) -> list[str]:
        """Statements that make it, of which the first that can be carried out is enough."""
        called = type_name(one.schema, one.name)
        if one.kind == "e":
            labels = ", ".join(map(literal, self.known.labels.get(one.oid, {}).values()))
            return [f"create type {called} as enum ({labels})"]
        if one.kind == "d":
            base = f"create domain {called} as {self._column(one.base, one.typmod).sql}"
            base += self._collate(one.collation)
            return [f"{base} {' '.join(self.known.checks.get(one.oid, ()))}", base]
        if one.kind == "c" and one.relation in self.known.fields:
            parts = [
                f"{identifier(part.name)} {self._column(part.type, part.typmod).sql}"
                f"{self._collate(part.collation)}"
                for part in self.known.fields[one.relation]
            ]
            return [f"create type {called} as ({', '.join(parts)})"]
        if one.kind == "r" and not self.known.ranges[one.oid].is_discrete:
            found = self.known.ranges[one.oid]
            of_many = self.known.types[found.multirange]
            options = [f"subtype = {self._column(found.subtype, -1).sql}"]
            if collation := self.collations.match(found.collation).sql:
                options.append(f"collation = {collation}")
            options.append(f"multirange_type_name = {type_name(of_many.schema, of_many.name)}")
            return [f"create type {called} as range ({', '.join(options)})"]
        return []  # of a base type of the user's own; a multirange is made with its range

    def _collate(self, oid: int) -> str:
        found = self.collations.match(oid).sql
        return f" collate {found}" if found else ""

    def _extend(self, name: str, schema: str) -> None:
        if schema != "pg_catalog":
            self._tried(f"create schema if not exists {identifier(schema)}")
        self._tried(_EXTENSION.format(name=identifier(name), schema=identifier(schema)))

    def _is_there(self, called: str) -> bool:
        if called not in self._there:
            row = self._state.execute("select to_regtype(%s) is not null", (called,)).fetchone()
            self._there[called] = row == (True,)
        return self._there[called]

    def _tried(self, statement: str) -> bool:
        try:
            with self._state.transaction():
                self._state.execute(statement.encode())
        except psycopg.OperationalError:
            raise
        except psycopg.Error:
            return False
        return True
