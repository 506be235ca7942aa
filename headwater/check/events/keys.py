"""Checks of keys: whether the form of events holds every value that a key column may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cdc.events.keys.exactness import key_guards
from cdc.protocol.relation import TypeInfo
from cdc.routes.faults import idle_routes, key_fault
from cdc.source.catalog import relation
from cdc.source.columns.treated_columns import treated
from cdc.source.errors import translated
from cdc.source.selection import Table
from cdc.source.types import load_types
from headwater.check.finding import Finding
from headwater.check.source import Source

_ZONED: Final = """
with recursive zoned (oid) as (
    select 'pg_catalog.timetz'::pg_catalog.regtype::oid
    union
    select t.oid from zoned join pg_catalog.pg_type t
    on t.typbasetype = zoned.oid or t.typelem = zoned.oid
)
select distinct attrelid::bigint from pg_catalog.pg_attribute
where attrelid = any(%s::oid[]) and attnum > 0 and not attisdropped
  and atttypid in (select oid from zoned)
"""


def key_values(source: Source) -> Iterator[Finding]:
    """A warning for each route that is of no table, and an error for a key that does not fit its
    table's route. A warning for each key column of which the form does not hold every value: the
    first one that it does not hold stops capture; for one whose time zone is not part of it."""
    config, form = source.config, source.config.form
    named = [(table.schema, table.name) for table in source.tables]
    routes = config.source.routing if named else ()  # what is wrong with the tables has been said
    for message, way in idle_routes(config.source.name, routes, named):
        yield Finding("warning", "routes", message, way)
    types = load_types(source.conn) if (tables := _concerned(source)) else {}
    for table in tables:
        shape = relation(
            source.conn, table.oid, types, config.source.publication_name, config.source.keys
        )
        place = config.source.place(table.schema, table.name)
        if fault := key_fault(shape.name, shape.key, place):
            yield Finding("error", "routes", *fault)
        for name, guard in key_guards(treated(source.conn, shape, config.source), form).items():
            message = f"{shape.name}: a value of the key column {name} can stop capture: "
            yield Finding("warning", "key values", message + guard.loses, guard.instead)
        for column in shape.columns:
            if column.name in shape.key and _is_zoned(column.type):
                yield Finding(
                    "warning", "key values",
                    f"{shape.name}: rows whose key column {column.name} differs in its time zone "
                    "alone share a key: a timetz is written in UTC",
                    "use another column type",
                )  # fmt: skip


def _is_zoned(type: TypeInfo) -> bool:
    element = type.element
    return type.base == "timetz" if element is None else _is_zoned(element)


def _concerned(source: Source) -> Sequence[Table]:
    """The default form holds all but one type: only tables that have it are looked at."""
    form = source.config.form
    if not form.has_our_values or form.schemas or form.routes:
        return source.tables
    with translated("reading the types of columns"):
        oids = [table.oid for table in source.tables]
        found = {oid for (oid,) in source.conn.execute(_ZONED, (oids,)).fetchall()}
    return [table for table in source.tables if table.oid in found]
