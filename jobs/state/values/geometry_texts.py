"""SQL of the texts that events have for geometric values: coordinates beside well-known binary.

The forms are those of ``cdc.events.values.geometry``: point, line and circle by their numbers, box
and polygon as WKB polygons with a closed ring, lseg and path as WKB line strings. A polygon whose
own points end with the first one says so in its extensions. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_POINT: Final = r"\x0101000000"
_LINE_STRING: Final = r"\x0102000000"
_POLYGON: Final = r"\x010300000001000000"
_PAIR: Final = r"\(([^(),]+),([^(),]+)\)"


def base64(octets: str) -> str:
    """Bytes in base64, in one line."""
    return rf"translate(encode({octets}, 'base64'), E'\n', '')"


def reversed_bytes(octets: str) -> str:
    """Bytes, the last one first."""
    one = "substring(o.b from i for 1)"
    return (
        f"(select coalesce(string_agg({one}, ''::bytea order by i desc), ''::bytea)"
        f" from (select {octets} as b) o, generate_series(1, length(o.b)) i)"
    )


def float_json(value: str) -> str:
    """A float as JSON: its shortest exact text, in quotes where that is no number."""
    return (
        f"case when {value} in ('NaN', 'Infinity', '-Infinity')"
        f" then pg_catalog.concat('\"', {value}, '\"') else {value}::text end"
    )


def _octets(number: str) -> str:
    return reversed_bytes(f"float8send({number})")


def _given(value: str, *parts: str) -> str:
    return f"case when {value} is not null then pg_catalog.concat({', '.join(parts)}) end"


def _point(value: str) -> str:
    return _given(value, *_point_parts(f"({value})"))


def _point_parts(point: str) -> tuple[str, ...]:
    x, y = f"{point}[0]", f"{point}[1]"
    wkb = base64(f"'{_POINT}'::bytea || {_octets(x)} || {_octets(y)}")
    return (
        *("'{\"x\":'", float_json(x), "',\"y\":'", float_json(y)),
        *('\',"wkb":"\'', wkb, '\'","srid":null}\''),
    )


def _circle(value: str) -> str:
    center = _point_parts(f"(center({value}))")
    parts = ("'{\"center\":'", *center, "',\"radius\":'", float_json(f"radius({value})"), "'}'")
    return _given(value, *parts)


def _line(value: str) -> str:
    """Its text is ``{A,B,C}``."""
    numbers = [
        float_json(f"split_part(trim({value}::text, '{{}}'), ',', {i})::float8") for i in (1, 2, 3)
    ]
    a, b, c = numbers
    return _given(value, "'{\"a\":'", a, "',\"b\":'", b, "',\"c\":'", c, "'}'")


def _pairs(value: str) -> str:
    """Rows ``x, y, o``: the coordinates of all points that a text names, in order."""
    return (
        "select f.m[1]::float8 as x, f.m[2]::float8 as y, f.o from"
        f" regexp_matches({value}::text, '{_PAIR}', 'g') with ordinality f(m, o)"
    )


def _ends_where_it_begins(pairs: str) -> str:
    """Whether the last point is the first one; a coordinate that is no number equals none."""
    return (
        "(select a.x = b.x and a.y = b.y and 'NaN' not in (a.x, a.y)"
        f" from ({pairs} order by o limit 1) a, ({pairs} order by o desc limit 1) b)"
    )


def _wkb(head: str, pairs: str, closing: str = "") -> str:
    """The number of points, four bytes of it, and their coordinates; the first one once more where
    ``closing`` holds."""
    if closing:
        pairs = f"with p as ({pairs}) select * from p union all select x, y, 1 + (select max(o)"
        pairs += f" from p) from p where o = (select min(o) from p) and {closing}"
    octets = f"string_agg({_octets('p.x')} || {_octets('p.y')}, ''::bytea order by p.o)"
    whole = base64(f"'{head}'::bytea || {reversed_bytes('int4send(w.n::int)')} || w.octets")
    return f"(select {whole} from (select count(*) as n, {octets} as octets from ({pairs}) p) w)"


def _shape(value: str, wkb: str, kind: str, more: str = "''") -> str:
    tail = f'\'","srid":null,"extensions":{{"type":"{kind}"\''
    return _given(value, '\'{"wkb":"\'', wkb, tail, more, "'}}'")


def _polygon(value: str) -> str:
    closed = _ends_where_it_begins(_pairs(value))
    more = f'case when {closed} then \',"closed":"true"\' end'
    return _shape(value, _wkb(_POLYGON, _pairs(value), f"not {closed}"), "polygon", more)


def _segment(value: str) -> str:
    return _shape(value, _wkb(_LINE_STRING, _pairs(value)), "lseg")


def _path(value: str) -> str:
    closed = f"case when isclosed({value}) then 'true' else 'false' end"
    more = f"',\"closed\":\"' || {closed} || '\"'"
    return _shape(value, _wkb(_LINE_STRING, _pairs(value)), "path", more)


def _box(value: str) -> str:
    """From the upper right corner through the lower right one."""
    high, low = f"(({value})[0])", f"(({value})[1])"
    corners = ((high, high), (high, low), (low, low), (low, high))
    rows = ", ".join(f"({x}[0], {y}[1], {i})" for i, (x, y) in enumerate(corners))
    pairs = f"select * from (values {rows}) c(x, y, o)"
    return _shape(value, _wkb(_POLYGON, pairs, "true"), "box")


GEOMETRY: Final[dict[str, Callable[[str], str]]] = {
    "point": _point,
    "line": _line,
    "lseg": _segment,
    "box": _box,
    "path": _path,
    "polygon": _polygon,
    "circle": _circle,
}
