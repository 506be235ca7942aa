"""The types of a database, as the catalog has them: domains, arrays and enums resolved to what
decides how their values are written."""

from __future__ import annotations

from typing import Final

from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import Connection, translated

_KINDS: Final = {"e": "enum", "d": "domain", "c": "composite", "r": "range", "m": "multirange"}

_TYPES: Final = """
select t.oid::bigint, n.nspname, t.typname, t.typtype, t.typbasetype::bigint, t.typtypmod,
       coalesce(e.oid, 0)::bigint, coalesce(e.typdelim, ',')
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
-- A true array is some element's typarray: oidvector, name and point have a typelem as well.
left join pg_catalog.pg_type e on e.oid = t.typelem and e.typarray = t.oid
"""
_COMMON_DIGITS: Final = 2


def load_types(conn: Connection) -> dict[int, TypeInfo]:
    """Every type of the database by OID, domains and arrays resolved."""
    with translated("reading the types of the database"):
        rows = {row[0]: row[1:] for row in conn.execute(_TYPES)}
    built_in = {row[1] for row in rows.values() if row[0] == "pg_catalog"}
    digits = _money_digits(conn)
    types: dict[int, TypeInfo] = {}

    def resolve(oid: int) -> TypeInfo:
        if oid in types:
            return types[oid]
        schema, name, kind, below, typmod, element_oid, delimiter = rows[oid]
        # A user's own type that is named like a built-in one has not its values.
        base = f"{schema}.{name}" if schema != "pg_catalog" and name in built_in else name
        info = TypeInfo(oid, schema, name, _KINDS.get(kind, "base"), base)
        if base == "money" and digits != _COMMON_DIGITS:
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
            info = info._replace(base="enum")
        elif element_oid:
            element = resolve(element_oid)
            info = info._replace(kind="array", base="array", element=element, delimiter=delimiter)
        types[oid] = info
        return info

    for oid in rows:
        resolve(oid)
    return types


def _money_digits(conn: Connection) -> int:
    """Digits behind the point of the database's currency, in whose smallest unit money is kept.

    Values are read with lc_monetary C, which shows hundredths: right for most, but a yen has no
    hundredths and a dinar has thousandths.
    """
    with translated("reading lc_monetary"):
        row = conn.execute(
            "select reset_val from pg_catalog.pg_settings where name = 'lc_monetary'"
        ).fetchone()
        if row is None or row[0] in ("C", "POSIX"):
            return _COMMON_DIGITS
        conn.execute("select pg_catalog.set_config('lc_monetary', %s, false)", (row[0],))
        digits = conn.execute("select pg_catalog.scale('1'::money::numeric)").fetchone()
        conn.execute("select pg_catalog.set_config('lc_monetary', 'C', false)")
    assert digits is not None
    return int(digits[0])
