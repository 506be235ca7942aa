"""The types of the source that a mirror needs, and what each is called in the state database.

Built-in types are themselves. Enums, domains, composites and ranges are made again in the schema
``types``, each named ``<schema>.<name>`` in one identifier. A type of an extension is itself where
the state database has the extension. What it cannot have (a base type of the user's own, a type
whose text names objects of the source's catalog, money without hundredths) is kept as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier
from cdc.source.types import COMMON_DIGITS, money_digits
from jobs.state.mirrors.table import TYPE_SCHEMA, one_identifier

TEXT: Final = "text"
# Their text names tables, roles or types, which the state database does not have.
_OF_CATALOG: Final = frozenset(
    ("regclass", "regproc", "regprocedure", "regoper", "regoperator", "regtype", "regrole")
) | {"regnamespace", "regconfig", "regdictionary", "regcollation", "aclitem", "pg_node_tree"}
_TYPES: Final = """
select t.oid::bigint, n.nspname, t.typname, t.typtype::text, t.typbasetype::bigint, t.typtypmod,
       coalesce(e.oid, 0)::bigint, t.typrelid::bigint, x.extname, xn.nspname,
       case when t.typcollation <> coalesce(b.typcollation, 0)
            then t.typcollation::bigint else 0 end
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_type e on e.oid = t.typelem and e.typarray = t.oid
left join pg_catalog.pg_type b on b.oid = t.typbasetype
left join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_type'::regclass and d.objid = t.oid
    and d.deptype = 'e'
left join pg_catalog.pg_extension x on x.oid = d.refobjid
left join pg_catalog.pg_namespace xn on xn.oid = x.extnamespace
where t.typtype <> 'p' and (n.nspname <> 'pg_catalog' or t.typtype <> 'c')
"""
_LABELS: Final = """
select enumtypid::bigint, array_agg(oid::bigint order by enumsortorder),
       array_agg(enumlabel::text order by enumsortorder)
from pg_catalog.pg_enum group by enumtypid
"""
_NAMED_LABELS: Final = """
select n.nspname, t.typname, l.numbers, l.names
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
join (select enumtypid, array_agg(oid::bigint order by enumsortorder) as numbers,
             array_agg(enumlabel::text order by enumsortorder) as names
      from pg_catalog.pg_enum group by enumtypid) l on l.enumtypid = t.oid
"""
_FIELDS: Final = """
select a.attrelid::bigint, a.attname, a.atttypid::bigint, a.atttypmod,
       case when a.attcollation <> t.typcollation then a.attcollation::bigint else 0 end
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid and c.relkind = 'c'
join pg_catalog.pg_type t on t.oid = a.atttypid
where a.attnum > 0 and not a.attisdropped order by a.attrelid, a.attnum
"""
_RANGES: Final = """
select r.rngtypid::bigint, r.rngsubtype::bigint, r.rngmultitypid::bigint,
       case when r.rngcollation <> s.typcollation then r.rngcollation::bigint else 0 end,
       r.rngcanonical::oid <> 0
from pg_catalog.pg_range r join pg_catalog.pg_type s on s.oid = r.rngsubtype
"""
_CHECKS: Final = """
select contypid::bigint, array_agg(pg_catalog.pg_get_constraintdef(oid) order by conname)
from pg_catalog.pg_constraint where contypid <> 0 and contype = 'c' group by contypid
"""
_FORMATTED: Final = """
select u.oid, u.typmod, pg_catalog.format_type(u.oid::oid, u.typmod)
from unnest(%s::bigint[], %s::int[]) u (oid, typmod)
"""


class SourceType(NamedTuple):
    """A row of ``pg_type``; OIDs that are 0 stand for none. ``collation`` is one that differs from
    that of the type below."""

    oid: int
    schema: str
    name: str
    kind: str
    base: int
    typmod: int
    element: int
    relation: int
    extension: str | None
    extension_schema: str | None
    collation: int


class Field(NamedTuple):
    """An attribute of a composite."""

    name: str
    type: int
    typmod: int
    collation: int


class Range(NamedTuple):
    """``is_discrete``: it has a function that makes equal ranges the same."""

    subtype: int
    multirange: int
    collation: int
    is_discrete: bool


@dataclass(frozen=True, slots=True)
class SourceTypes:
    """All types of the source's database, by OID."""

    types: Mapping[int, SourceType]
    labels: Mapping[int, Mapping[int, str]]
    """In their order, by what a label keeps when it is renamed."""
    fields: Mapping[int, tuple[Field, ...]]
    ranges: Mapping[int, Range]
    checks: Mapping[int, tuple[str, ...]]
    multiranges: Mapping[int, int] = field(default_factory=dict)
    """The range of each multirange."""
    money_digits: int = COMMON_DIGITS
    """Of the currency's: a database of another currency has other values of ``money``."""

    def below(self, oid: int) -> SourceType:
        """The type under all domains."""
        found = self.types[oid]
        while found.kind == "d":
            found = self.types[found.base]
        return found

    def typmod(self, oid: int, typmod: int) -> int:
        """A column's typmod, or that of the domains that it is of."""
        found = self.types[oid]
        while typmod == -1 and found.kind == "d":
            typmod, found = found.typmod, self.types[found.base]
        return typmod

    def needed(self, oids: Iterable[int]) -> list[SourceType]:
        """The types that these are made of and themselves, those first that others need."""
        found: dict[int, SourceType] = {}

        def visit(oid: int) -> None:
            if oid in found or oid not in self.types:
                return
            for part in self._parts(self.types[oid]):
                visit(part)
            found[oid] = self.types[oid]

        for oid in oids:
            visit(oid)
        return list(found.values())

    def _parts(self, one: SourceType) -> list[int]:
        parts = [one.base, one.element, self.multiranges.get(one.oid, 0)]
        if one.kind == "r":
            parts.append(self.ranges[one.oid].subtype)
        parts += [part.type for part in self.fields.get(one.relation, ())]
        return [part for part in parts if part]


def read_source_types(conn: Connection) -> SourceTypes:
    """The types as the session (of the source) sees them. Raises what reading the catalog does."""
    with translated("reading the types of the database"):
        types = {row[0]: SourceType._make(row) for row in conn.execute(_TYPES)}
        labels = {
            oid: dict(zip(numbers, names, strict=True))
            for oid, numbers, names in conn.execute(_LABELS)
        }
        fields: dict[int, list[Field]] = {}
        for relation, *parts in conn.execute(_FIELDS):
            fields.setdefault(relation, []).append(Field._make(parts))
        ranges = {oid: Range._make(parts) for oid, *parts in conn.execute(_RANGES)}
        checks = {oid: tuple(found) for oid, found in conn.execute(_CHECKS)}
    return SourceTypes(
        types,
        labels,
        {relation: tuple(found) for relation, found in fields.items()},
        ranges,
        checks,
        {found.multirange: oid for oid, found in ranges.items()},
        money_digits(conn),
    )


def read_labels(conn: Connection) -> list[tuple[str, str, Mapping[int, str]]]:
    """The enums of the source: schema, name, and labels as ``SourceTypes`` has them."""
    with translated("reading the labels of enums"):
        rows = conn.execute(_NAMED_LABELS).fetchall()
    return [(schema, name, dict(zip(numbers, names, strict=True)))
            for schema, name, numbers, names in rows]  # fmt: skip


def formatted(conn: Connection, wanted: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], str]:
    """What PostgreSQL calls types with their typmods: ``numeric(10,2)``."""
    pairs = list(wanted)
    with translated("reading the names of types"):
        rows = conn.execute(_FORMATTED, ([oid for oid, _ in pairs], [mod for _, mod in pairs]))
        return {(oid, typmod): name for oid, typmod, name in rows}


def type_name(schema: str, name: str) -> str:
    """What a type of the user's own is called in the state database, as SQL."""
    return f"{TYPE_SCHEMA}.{identifier(one_identifier(schema, name))}"


def is_kept_as_text(one: SourceType, digits: int) -> bool:
    """Whether no database but the source can have its values; ``digits`` are those of its money."""
    if one.schema == "pg_catalog":
        return one.name in _OF_CATALOG or (one.name == "money" and digits != COMMON_DIGITS)
    return one.kind == "b" and one.extension is None and not one.element
