"""SQL that gives a value the text which events have for it (``docs/events.md``). Pure.

A view holds as text what Spark has no exact type for. ``cdc.events.values`` makes that text from
PostgreSQL's own; here PostgreSQL makes it itself, the same text for the same value, so that rows
go from the state database to a store as they are. Expressions are NULL for NULL. They need
``TimeZone = 'UTC'`` and ``DateStyle = 'ISO'`` for ranges and composites that hold times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jobs.state.values.geometry_texts import GEOMETRY, base64, reversed_bytes

_PLAIN: Final = frozenset({"text", "varchar", "name", "uuid", "enum", "json", "jsonb"})
"""A cast gives the text that the type's output function gives."""
_BARE: Final = frozenset({"uuid", "numeric", "time", "timetz", "interval"})
"""Nothing in these texts has to be escaped in JSON."""
_ZERO: Final = r"\x00"


def event_text(base: str, typmod: int, value: str) -> str:
    """The text of a value of a type that views hold as text; ``base`` as ``TypeInfo.base``."""
    if base in _PLAIN:
        return f"{value}::text"
    if base in _BY_BASE:
        return _BY_BASE[base](value)
    if base == "bit":
        return _bits(value, typmod)
    if base in GEOMETRY:
        return GEOMETRY[base](value)
    return printed(value)


def is_bare(base: str) -> bool:
    """Whether ``event_text`` between quotes is JSON."""
    return base in _BARE


def printed(value: str) -> str:
    """The output function's text. A cast would take the blanks of char(n), and add the length of
    the network to inet; IS NOT NULL would ask each field of a composite."""
    return f"case when {value} is distinct from null then pg_catalog.concat({value}) end"


def _numeric(value: str) -> str:
    return (
        f"case {value} when 'NaN'::numeric then 'NAN'"
        f" when 'Infinity'::numeric then 'POSITIVE_INFINITY'"
        f" when '-Infinity'::numeric then 'NEGATIVE_INFINITY' else {value}::text end"
    )


def _money(value: str) -> str:
    return f"({value}::numeric)::text"


def _time(value: str) -> str:
    return f"({value}::text || 'Z')"


def _timetz(value: str) -> str:
    """The time of day in UTC; what is in UTC already may be 24:00:00."""
    in_utc = f"timezone('UTC', {value})::time"
    at_zero = f"case when extract(timezone from {value}) = 0 then {value}::time else {in_utc} end"
    return f"(({at_zero})::text || 'Z')"


def _interval(value: str) -> str:
    """All six units, each with a sign of its own."""
    units = (("year", "Y"), ("month", "M"), ("day", "DT"), ("hour", "H"), ("minute", "M"))
    parts = ", ".join(f"extract({unit} from {value}), '{mark}'" for unit, mark in units)
    seconds = f"trim_scale(extract(second from {value}))"
    return (
        f"case when not isfinite({value}) then {value}::text"
        f" when {value} is not null then pg_catalog.concat('P', {parts}, {seconds}, 'S') end"
    )


def _bits(value: str, length: int) -> str:
    """``bit(1)`` is a boolean; of others the bytes, the last one first, without zeros behind."""
    if length < 1:
        return f"{value}::text"
    if length == 1:
        return f"case {value} when B'1' then 'true' when B'0' then 'false' end"
    whole = f"B'{'0' * (-length % 8)}' || {value}"
    octets = reversed_bytes(f"substring(varbit_send({whole}) from 5)")
    trimmed = base64(f"rtrim({octets}, '{_ZERO}'::bytea)")
    return f"case when {value} is not null then {trimmed} end"


def _hstore(value: str) -> str:
    """A JSON object as text, in the order that PostgreSQL keeps the keys in."""
    pair = "to_json(p.k)::text || ':' || coalesce(to_json(p.v)::text, 'null')"
    pairs = f"'{{' || coalesce(string_agg({pair}, ',' order by p.o), '') || '}}'"
    rows = f"json_each_text({value}::json) with ordinality p(k, v, o)"
    return f"case when {value} is not null then (select {pairs} from {rows}) end"


def _sparse_vector(value: str) -> str:
    text = f"{value}::text"
    pairs = rf"regexp_replace(split_part({text}, '/', 1), '([0-9]+):([^,}}]+)', '[\1,\2]', 'g')"
    vector = f"translate({pairs}, '{{}}', '')"
    return (
        f"case when {value} is not null then pg_catalog.concat('{{\"dimensions\":',"
        f" split_part({text}, '/', 2), ',\"vector\":[', {vector}, ']}}') end"
    )


_BY_BASE: Final[dict[str, Callable[[str], str]]] = {
    "numeric": _numeric,
    "money": _money,
    "time": _time,
    "timetz": _timetz,
    "interval": _interval,
    "varbit": lambda value: f"{value}::text",
    "hstore": _hstore,
    "sparsevec": _sparse_vector,
}
