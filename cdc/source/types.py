"""The types of a database, as the catalog has them: domains, arrays and enums resolved to what
decides how their values are written."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cdc.protocol.relation import TypeInfo
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_KINDS: Final = {"e": "enum", "d": "domain", "c": "composite", "r": "range", "m": "multirange"}

_TYPES: Final = """
select t.oid::bigint, n.nspname, t.typname, t.typtype, t.typbasetype::bigint, t.typtypmod,
       coalesce(e.oid, 0)::bigint, coalesce(e.typdelim, ','),
       exists (select from pg_catalog.pg_type b where b.typname = t.typname
               and b.typnamespace = 'pg_catalog'::pg_catalog.regnamespace),
       case t.typtype when 'e' then
           array(select l.enumlabel::text from pg_catalog.pg_enum l where l.enumtypid = t.oid
                 order by l.enumsortorder) end
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
-- A true array is some element's typarray: oidvector, name and point have a typelem as well.
left join pg_catalog.pg_type e on e.oid = t.typelem and e.typarray = t.oid
"""
# Each table and partition has two types of its own: in a database of many, few are a column's.
_SOME: Final = f"""
with recursive needed (oid) as (
    select pg_catalog.unnest(%s::oid[])
    union
    select below.oid from needed join pg_catalog.pg_type t on t.oid = needed.oid,
        lateral (values (t.typbasetype), (t.typelem)) below (oid)
    where below.oid <> 0
)
{_TYPES}
where t.oid in (select oid from needed)
"""
COMMON_DIGITS: Final = 2
"""Behind the point of most currencies."""


def load_types(conn: Connection, oids: Collection[int] | None = None) -> dict[int, TypeInfo]:
    """Every type of the database by OID, domains and arrays resolved; of some, those with what they
    are made of. Types that are gone are left out."""
    with translated("reading the types of the database"):
        found = conn.execute(_TYPES) if oids is None else conn.execute(_SOME, (list(oids),))
        rows = {row[0]: row[1:] for row in found}
    digits = money_digits(conn)
    types: dict[int, TypeInfo] = {}

    def resolve(oid: int) -> TypeInfo:
        if oid in types:
            return types[oid]
        schema, name, kind, below, typmod, element_oid, delimiter, is_built_in, labels = rows[oid]
        # A user's own type that is named like a built-in one has not its values.
        base = f"{schema}.{name}" if schema != "pg_catalog" and is_built_in else name
        info = TypeInfo(oid, schema, name, _KINDS.get(kind, "base"), base)
        if base == "money" and digits != COMMON_DIGITS:
            info = info._replace(typmod=digits)
        if kind == "d":
            base_type = resolve(below)
            info = info._replace(
                base=base_type.base,
                typmod=typmod if typmod != -1 else base_type.typmod,
                element=base_type.element,
                delimiter=base_type.delimiter,
            )
        elif kind == "e":
            info = info._replace(base="enum", labels=tuple(labels))
        elif element_oid:
            element = resolve(element_oid)
            info = info._replace(kind="array", base="array", element=element, delimiter=delimiter)
        types[oid] = info
        return info

    for oid in rows:
        resolve(oid)
    return types


def money_digits(conn: Connection) -> int:
    """Digits behind the point of the database's currency, in whose smallest unit money is kept.

    Values are read with lc_monetary C, which shows hundredths: right for most, but a yen has no
    hundredths and a dinar has thousandths.
    """
    with translated("reading lc_monetary"):
        row = conn.execute(
            "select reset_val from pg_catalog.pg_settings where name = 'lc_monetary'"
        ).fetchone()
        if row is None or row[0] in ("C", "POSIX"):
            return COMMON_DIGITS
        conn.execute("select pg_catalog.set_config('lc_monetary', %s, false)", (row[0],))
        digits = conn.execute("select pg_catalog.scale('1'::money::numeric)").fetchone()
        conn.execute("select pg_catalog.set_config('lc_monetary', 'C', false)")
    assert digits is not None
    return int(digits[0])
