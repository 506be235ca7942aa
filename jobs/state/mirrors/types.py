"""The source's own types, made again in the state database.

They are made before the mirrors that need them, each in a transaction of its own: a label of an
enum cannot be used in the transaction that adds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import psycopg

from cdc.source.postgres import Connection, identifier, literal
from jobs.state.mirrors.collations import Collations
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
# What the source knows the labels of an enum by is kept in the type's comment.
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

    def __init__(self, source: Connection, state: Connection) -> None:
        self._source, self._state = source, state
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
            if is_kept_as_text(one) or not self._made(one):
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
        held = {int(number): label for number, label in json.loads(comment or "{}").items()}
        if held == labels:
            return
        with translated(f"changing the labels of {called}"):
            for statement in label_statements(called, held, labels):
                self._state.execute(statement.encode())
            self._note_labels(one)
        self.changed.append(called)

    def _note_labels(self, one: SourceType) -> None:
        noted = literal(json.dumps(self.known.labels.get(one.oid, {})))
        called = type_name(one.schema, one.name)
        self._state.execute(f"comment on type {called} is {noted}".encode())

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
            row = self._state.execute("select %s::regtype::oid::text", (called,)).fetchone()
            assert row is not None, "it is a function"
            old = identifier(one_identifier(name, f"old {row[0]}"))
            self._state.execute(f"alter type {called} rename to {old}".encode())
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


def label_statements(called: str, held: Mapping[int, str], wanted: Mapping[int, str]) -> list[str]:
    """What makes the labels of an enum those of the source, in its order. Pure.

    Labels are known by their numbers, so that one that was renamed is no other one.
    """
    renamed = [(held[n], label) for n, label in wanted.items() if held.get(n, label) != label]
    statements = []
    if any(now in held.values() for _, now in renamed):  # names may have been exchanged
        between = [f"~{number}" for number, _ in enumerate(renamed)]
        statements += [
            _renaming(called, was, to) for (was, _), to in zip(renamed, between, strict=True)
        ]
        renamed = [(by, now) for by, (_, now) in zip(between, renamed, strict=True)]
    statements += [_renaming(called, was, now) for was, now in renamed]
    labels = list(wanted.values())
    there = {label for number, label in wanted.items() if number in held}
    for place, label in enumerate(labels):
        if label in there:
            continue
        behind = next((one for one in labels[place + 1 :] if one in there), None)
        where = "" if behind is None else f" before {literal(behind)}"
        there.add(label)
        statements.append(f"alter type {called} add value {literal(label)}{where}")
    return statements


def _renaming(called: str, was: str, now: str) -> str:
    return f"alter type {called} rename value {literal(was)} to {literal(now)}"
