"""Values there and back: PostgreSQL's text, our JSON, and PostgreSQL's own reading of that JSON.

For generated values of every type: what the server makes of our JSON, cast to the type again, is
the value it had. ``literal`` is what a consumer has to know to read our values back.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc.events.values.encoder import encoder
from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import WIRE_OPTIONS, Connection
from cdc.source.types import load_types

EXAMPLES = 40
TYPES = """
create type mood as enum ('sad', 'ok ok', 'h"x');
create type pair as (a int, b text);
create domain price as numeric(10,2);
"""


class Source(NamedTuple):
    """A session with capture's settings, and the types it knows."""

    connection: Connection
    types: dict[int, TypeInfo]


@pytest.fixture(scope="module")
def source(postgres: str) -> Iterator[Source]:
    """One session for all; its types are temporary, so nothing is left behind."""
    with psycopg.connect(postgres, options=WIRE_OPTIONS, autocommit=True) as connection:
        connection.execute("set search_path to pg_temp")
        connection.execute(TYPES)
        yield Source(connection, load_types(connection))


def wire(source: Source, expression: str, literal: str) -> tuple[bytes, TypeInfo, int]:
    """The text form the server sends, with the type's description and typmod."""
    cursor = source.connection.cursor()
    cursor.execute(f"select cast(%s::text as {expression})", [literal])
    assert cursor.pgresult is not None
    text = cursor.pgresult.get_value(0, 0)
    assert text is not None
    kind = source.types[cursor.pgresult.ftype(0)]
    typmod = cursor.pgresult.fmod(0)
    return bytes(text), kind, typmod if typmod != -1 else kind.typmod


def text_of_years(text: str) -> str:
    """PostgreSQL's BC and long years from signed ISO years."""
    match = re.fullmatch(r"([-+]?)(\d+)(-\d\d-\d\d.*)", text)
    if match is None:
        return text  # infinity
    sign, digits, rest = match.groups()
    year = int(sign + digits)
    return f"{year:04d}{rest}" if year > 0 else f"{1 - year:04d}{rest} BC"


def bits(value: str | bool, length: int) -> str:
    """``bit(n)`` from little-endian bytes."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{int.from_bytes(base64.b64decode(value), 'little'):0{length}b}"


def array(value: object, kind: TypeInfo, typmod: int) -> str:
    """An array literal from a JSON array; with other lower bounds it is PostgreSQL's text."""
    if isinstance(value, str):
        return value
    assert isinstance(value, list)
    assert kind.element is not None
    parts = []
    for item in value:
        if item is None:
            parts.append("NULL")
        elif isinstance(item, list):
            parts.append(array(item, kind, typmod))
        else:
            inner = literal(item, kind.element, typmod)
            escaped = inner.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'"{escaped}"')
    return "{" + kind.delimiter.join(parts) + "}"


WORDS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
READERS: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "t" if value else "f",
    "numeric": lambda value: WORDS.get(value, value),
    "bytea": lambda value: "\\x" + base64.b64decode(value).hex(),
    "date": lambda value: text_of_years(value.removesuffix("Z")),
    "time": lambda value: value.removesuffix("Z"),
    "timestamp": lambda value: text_of_years(value.removesuffix("Z")),
    "timestamptz": lambda value: text_of_years(value.replace("Z", "+00")),
    "timetz": lambda value: value.replace("Z", "+00"),
    "point": lambda value: f"({value['x']},{value['y']})",
    "line": lambda value: f"{{{value['a']},{value['b']},{value['c']}}}",
}


def literal(value: object, kind: TypeInfo, typmod: int) -> str:
    """What PostgreSQL reads, from parsed JSON in which numbers are still text."""
    if kind.element is not None:
        return array(value, kind, typmod)
    if kind.base == "bit":
        assert isinstance(value, (str, bool))
        return bits(value, typmod)
    return READERS.get(kind.base, str)(value)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
INTEGERS = {2: st.integers(-(2**15), 2**15 - 1), 4: st.integers(-(2**31), 2**31 - 1)}
DATES = st.dates().map(str) | st.sampled_from(
    ["infinity", "-infinity", "0044-03-15 BC", "4714-11-24 BC", "12345-06-07", "5874897-12-31"]
)
CLOCK = st.times().map(str) | st.just("24:00:00")
STAMPS = st.datetimes().map(str) | st.sampled_from(
    ["infinity", "-infinity", "0044-03-15 12:00:00.5 BC", "294276-12-31 23:59:59.999999"]
)
OFFSETS = st.integers(-57599, 57599).map(
    lambda s: f"{'-' if s < 0 else '+'}{abs(s) // 3600:02}:{abs(s) // 60 % 60:02}:{abs(s) % 60:02}"
)
FLOATS = st.floats().map(repr)
NUMERICS = st.decimals(allow_nan=False, allow_infinity=False).map(
    lambda value: f"{value:f}"[:900]
) | st.sampled_from(["NaN", "Infinity", "-Infinity"])
INTERVALS = st.tuples(
    st.integers(-3000, 3000), st.integers(-(10**6), 10**6), st.integers(-(10**15), 10**15)
).map(lambda parts: f"{parts[0]} months {parts[1]} days {parts[2]} microseconds")
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
).map(lambda value: json.dumps(value, ensure_ascii=False))
BITS = st.text("01", max_size=70)


def quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def arrays(elements: st.SearchStrategy[str], bounds: bool = False) -> st.SearchStrategy[str]:
    """Array literals of one or two dimensions."""
    flat = st.lists(st.none() | elements, max_size=4).map(
        lambda items: "{" + ",".join(quoted(item) for item in items) + "}"
    )
    square = st.lists(st.tuples(elements, elements), min_size=1, max_size=3).map(
        lambda rows: "{" + ",".join("{" + ",".join(map(quoted, row)) + "}" for row in rows) + "}"
    )
    shifted = elements.map(lambda item: "[5:5]={" + quoted(item) + "}")
    return flat | square | shifted if bounds else flat | square


CASES: list[tuple[str, st.SearchStrategy[str]]] = [
    ("bool", st.sampled_from(["t", "f"])),
    ("int2", INTEGERS[2].map(str)),
    ("int8", st.integers(-(2**63), 2**63 - 1).map(str)),
    ("oid", st.integers(0, 2**32 - 1).map(str)),
    ("float4", st.floats(width=32).map(repr)),
    ("float8", FLOATS),
    ("numeric", NUMERICS),
    ("numeric(12,3)", st.decimals(-99999, 99999, places=3).map(str)),
    ("price", st.decimals(-99999, 99999, places=2).map(str)),
    ("money", st.integers(-(2**63), 2**63 - 1).map(lambda n: str(Decimal(n).scaleb(-2)))),
    ("text", TEXT),
    ("varchar(20)", TEXT),
    ("char(5)", st.text("ab é", max_size=5)),
    ("name", st.text("ab é", max_size=20)),
    ("uuid", st.uuids().map(str)),
    ("json", JSONS),
    ("jsonb", JSONS.filter(lambda text: "\\u0000" not in text)),
    ("mood", st.sampled_from(["sad", "ok ok", 'h"x'])),
    ("pair", st.tuples(INTEGERS[4], TEXT).map(lambda p: f"({p[0]},{quoted(p[1])})")),
    ("inet", st.ip_addresses().map(str)),
    ("int4range", st.tuples(INTEGERS[2], INTEGERS[2]).map(lambda p: f"[{min(p)},{max(p)})")),
    ("int4multirange", INTEGERS[2].map(lambda n: f"{{[{n},{n + 1}),[{n + 5},)}}")),
    ("bytea", st.binary(max_size=40).map(lambda octets: "\\x" + octets.hex())),
    ("bit(1)", st.sampled_from("01")),
    ("bit(13)", st.text("01", min_size=13, max_size=13)),
    ("varbit", BITS),
    ("date", DATES),
    ("time", CLOCK),
    ("time(2)", CLOCK),
    ("timestamp", STAMPS),
    ("timestamp(3)", STAMPS.filter(lambda text: "294276" not in text)),
    ("timestamptz", STAMPS),
    ("timestamptz(0)", STAMPS.filter(lambda text: "294276" not in text)),
    ("interval", INTERVALS | st.sampled_from(["infinity", "-infinity"])),
    ("point", st.tuples(FLOATS, FLOATS).map(lambda p: f"({p[0]},{p[1]})")),
    ("int4[]", arrays(INTEGERS[4].map(str), bounds=True)),
    ("text[]", arrays(TEXT, bounds=True)),
    ("float8[]", arrays(FLOATS)),
    ("numeric[]", arrays(NUMERICS)),
    ("bytea[]", arrays(st.binary(max_size=9).map(lambda octets: "\\x" + octets.hex()))),
    ("timestamptz(3)[]", arrays(st.datetimes().map(str))),
    ("bit(5)[]", arrays(st.text("01", min_size=5, max_size=5))),
    ("varbit[]", arrays(BITS)),
    ("mood[]", arrays(st.sampled_from(["sad", 'h"x']))),
    ("jsonb[]", arrays(JSONS.filter(lambda text: "\\u0000" not in text))),
    ("interval[]", arrays(INTERVALS)),
    ("price[]", arrays(st.decimals(-99, 99, places=2).map(str))),
]


def there_and_back(source: Source, declaration: str, value: str) -> tuple[bytes, bytes]:
    """The server's text of the value, and of what it reads out of our JSON."""
    text, kind, typmod = wire(source, declaration, value)
    encode = encoder(kind, typmod)
    document = text if encode is None else encode(text)
    parsed = json.loads(document, parse_int=str, parse_float=str)
    again, _, _ = wire(source, declaration, literal(parsed, kind, typmod))
    return text, again


@pytest.mark.parametrize(("declaration", "values"), CASES, ids=[name for name, _ in CASES])
def test_a_value_survives_the_way_through_json(
    source: Source, declaration: str, values: st.SearchStrategy[str]
) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(values)
    def survives(value: str) -> None:
        text, again = there_and_back(source, declaration, value)
        assert again == text

    survives()


def test_a_time_with_zone_becomes_the_same_time_in_utc(source: Source) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, print_blob=True)
    @given(st.times().map(str), OFFSETS)
    def same_moment(clock: str, offset: str) -> None:
        text, again = there_and_back(source, "timetz", clock + offset)
        row = source.connection.execute(
            "select (%s::text::timetz at time zone 'UTC') = %s::text::timetz",
            [text.decode(), again.decode()],
        ).fetchone()
        assert row == (True,)

    same_moment()
