"""SQL that gives ``timetz`` values of the source as events have them: the time in UTC. Pure.

Mirrors hold them so, and a view's SQL computes with what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from cdc.events.values.encoder import TEXT_KINDS
from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import identifier

_ZONED: Final = "timetz"
_TOKENS: Final = "'[^{},]+|[{},]'"


class _Typed(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> TypeInfo: ...


def in_utc(columns: Iterable[_Typed]) -> dict[str, str]:
    """Expressions for those columns of a table whose values may be in other zones, by name."""
    found = {column.name: _in_utc(column.type, identifier(column.name)) for column in columns}
    return {name: sql for name, sql in found.items() if sql}


def _in_utc(type: TypeInfo, value: str) -> str:
    if type.kind in TEXT_KINDS:
        return ""
    if type.element is None:
        return _time(value) if type.base == _ZONED else ""
    if type.element.kind in TEXT_KINDS or type.element.base != _ZONED:
        return ""
    return _array(value)


def _time(value: str) -> str:
    """What is in UTC already may be 24:00:00."""
    moved = f"pg_catalog.timezone('UTC', {value})"
    return f"case when extract(timezone from {value}) = 0 then {value} else {moved} end"


def _array(value: str) -> str:
    """Of any dimensions; with other lower bounds than 1 events have PostgreSQL's own text."""
    time = _time("m.t[1]::pg_catalog.timetz")
    token = f"case when m.t[1] ~ '^[0-9]' then ({time})::text else m.t[1] end"
    tokens = f"pg_catalog.regexp_matches({value}::text, {_TOKENS}, 'g') with ordinality m (t, n)"
    moved = f"(select pg_catalog.string_agg({token}, '' order by m.n) from {tokens})"
    return (
        f"(case when pg_catalog.left({value}::text, 1) = '[' then {value}::text else {moved} end)"
        "::pg_catalog.timetz[]"
    )
