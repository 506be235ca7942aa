"""Equal values, in whatever form source and stores give them, are equal; others are not."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cdc.protocol.relation import TypeInfo
from jobs.state.values.value_forms import kept_text
from verification.values.canonical_form import (
    canonicalizer,
    digest,
    packed,
    row_canonicalizer,
    unpacked,
)
from verification.values.event_forms import source_form
from views.types import (
    BOOL,
    FLOAT8,
    INT4,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    PgType,
    array_of,
)

NUMERIC = PgType("numeric", 38, 10)
BYTEA = PgType("bytea")
DATE = PgType("date")
FLOAT4 = PgType("float4")
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))


def canonical(kind: PgType, value: Any) -> Any:
    return row_canonicalizer([canonicalizer(kind)])([value])[0]


def same(kind: PgType, *values: Any) -> bool:
    return len({packed((canonical(kind, value),)) for value in values}) == 1


def postgres_text(moment: datetime) -> str:
    """A timestamp as PostgreSQL prints it under DateStyle ISO."""
    text = moment.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0").removesuffix(".") if "." in text else text


@given(DECIMALS, st.integers(0, 12))
def test_a_decimal_is_the_same_with_more_zeros(value: Decimal, zeros: int) -> None:
    plain = format(value, "f")
    longer = plain + ("" if "." in plain else ".") + "0" * zeros
    assert same(NUMERIC, value, plain, longer, Decimal(longer))


@given(DECIMALS, DECIMALS)
def test_decimals_that_differ_stay_different(one: Decimal, other: Decimal) -> None:
    assert same(NUMERIC, one, other) == (one == other)


@pytest.mark.parametrize("text", ["NaN", "NAN"])
def test_a_numeric_nan_is_itself_in_every_form(text: str) -> None:
    assert same(NUMERIC, Decimal("NaN"), text)


def test_numeric_infinities_are_themselves_in_every_form() -> None:
    assert same(NUMERIC, "Infinity", "POSITIVE_INFINITY", Decimal("Infinity"))
    assert same(NUMERIC, "-Infinity", "NEGATIVE_INFINITY", Decimal("-Infinity"))
    assert not same(NUMERIC, "Infinity", "-Infinity")


@given(st.floats(width=32))
def test_a_single_float_is_its_double_image(value: float) -> None:
    (widened,) = struct.unpack("f", struct.pack("f", value))
    shortest = float(f"{value:.9g}")
    assert same(FLOAT4, value, widened, shortest)


@given(st.floats(), st.floats())
def test_doubles_are_equal_as_postgres_has_it(one: float, other: float) -> None:
    both_nan = one != one and other != other
    assert same(FLOAT8, one, other) == (one == other or both_nan)


@given(st.floats())
def test_a_double_is_itself_in_json(value: float) -> None:
    assert same(FLOAT8, value, repr(value), str(value))


@given(MOMENTS, st.integers(-12, 12))
def test_an_instant_is_the_same_in_every_notation(moment: datetime, hours: int) -> None:
    aware = moment.replace(tzinfo=UTC)
    elsewhere = aware.astimezone(timezone(timedelta(hours=hours)))
    event = postgres_text(moment).replace(" ", "T") + "Z"
    full = moment.isoformat(timespec="microseconds") + "Z"
    text = postgres_text(moment) + "+00"
    assert same(TIMESTAMPTZ, aware, elsewhere, moment, event, full, text)


@given(MOMENTS, MOMENTS)
def test_moments_that_differ_stay_different(one: datetime, other: datetime) -> None:
    assert same(TIMESTAMP, one, postgres_text(other)) == (one == other)


@given(st.dates())
def test_a_date_is_the_same_as_its_text(day: date) -> None:
    assert same(DATE, day, day.isoformat(), f"{day.isoformat()}Z")


@given(st.binary())
def test_binary_is_the_same_as_bytes_hex_and_base64(data: bytes) -> None:
    encoded = b64encode(data).decode()
    assert same(BYTEA, data, bytearray(data), memoryview(data), "\\x" + data.hex(), encoded)


@given(st.lists(st.none() | DECIMALS))
def test_array_elements_are_compared_by_their_own_type(items: list[Decimal | None]) -> None:
    kind = PgType("array", 38, 10, "numeric")
    texts = [
        None if item is None else format(item, "f") + ".0" * (item == int(item)) for item in items
    ]
    assume(all(text is None or text.count(".") < 2 for text in texts))
    assert same(kind, items, tuple(items), texts)


def test_null_equals_null_only() -> None:
    assert not same(INT4, None, 0)
    assert not same(PgType("text"), None, "")
    assert not same(PgType("array", element="int4"), None, [])
    assert not same(PgType("array", element="int4"), [None], [])


def test_a_boolean_is_no_number_and_a_number_no_text() -> None:
    assert not same(PgType("bool"), True, 1)
    assert not same(INT4, 1, "1")


@given(st.lists(st.none() | st.booleans() | st.integers() | st.text() | st.binary()))
def test_packing_is_reversed_and_tells_rows_apart(values: list[Any]) -> None:
    row = tuple(values)
    assert unpacked(packed(row)) == row
    copy = tuple(bytes(bytearray(v)) if isinstance(v, bytes) else v for v in values)
    assert digest(row) == digest(copy)
    assert digest(row) != digest((*row, None))


LINE = PgType(
    "struct",
    fields=(
        ("sku", TEXT),
        ("n", INT4),
        ("gift", BOOL),
        ("price", NUMERIC),
        ("at", TIMESTAMPTZ),
        ("of", PgType("struct", fields=(("id", INT4),))),
    ),
)


def test_a_nested_row_is_the_same_as_json_of_texts_and_as_values() -> None:
    text = (
        '{"sku": "1", "n": "7", "gift": "true", "price": "1.50",'
        ' "at": "2024-02-29 12:00:00.5+00", "of": {"id": "3"}}'
    )
    at = datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC)
    values = {"of": {"id": 3}, "at": at, "price": Decimal("1.5"), "gift": True, "n": 7, "sku": "1"}
    assert same(LINE, text, values)
    assert same(array_of(LINE), f"[{text}, null]", [text, None], [values, None])
    assert not same(LINE, values, {**values, "gift": False})
    assert not same(LINE, values, {**values, "of": None})
    assert not same(array_of(LINE), [values, None], [None, values])
    assert same(LINE, {}, dict.fromkeys(values), "{}")


def test_nested_rows_are_equal_whatever_their_types_look_like_as_text() -> None:
    times = array_of(PgType("time"))
    fields = (("at", PgType("time")), ("all", times), ("n", INT4), ("on", DATE), ("t", TEXT))
    kind = array_of(PgType("struct", fields=fields))
    types = {
        1083: TypeInfo(1083, "pg_catalog", "time", "base", "time"),
        1: TypeInfo(1, "public", "clock", "domain", "time"),
    }
    types[2] = TypeInfo(2, "pg_catalog", "_time", "array", "array", element=types[1083])
    source = (
        '[{"at": "18:09:00", "all": "{18:09:00,NULL}", "n": "7", "on": "2024-02-29", "t": "x"},'
        ' {"at": null, "all": null, "n": null, "on": null, "t": null}, null]'
    )
    held = [
        {"at": "18:09:00Z", "all": ["18:09:00Z", None], "n": 7, "on": date(2024, 2, 29), "t": "x"},
        {"at": None, "all": None, "n": None, "on": None, "t": None},
        None,
    ]
    form = source_form(kind, types, types[2], -1)
    assert form is not None
    assert same(kind, form(source), held)


def test_an_hstore_of_the_source_is_what_a_store_has_of_events_and_of_mirrors() -> None:
    """Also where the state database lacks the type: its mirrors keep the text of events."""
    hstore = TypeInfo(9, "public", "hstore", "base", "hstore")
    listed = TypeInfo(10, "public", "_hstore", "array", "array", element=hstore)
    text, kind = '"a"=>"1", "b c"=>NULL', PgType("hstore")
    quoted = text.replace('"', '\\"')
    for of, info, source in (
        (kind, hstore, text),
        (array_of(kind), listed, f'{{"{quoted}",NULL}}'),
    ):
        form, kept = source_form(of, {9: hstore}, info, -1, described=True), kept_text(info)
        assert form is not None
        assert kept is not None
        wanted = '{"a":"1","b c":null}'
        assert form(source) == (wanted if of is kind else [wanted, None])
        literal = '{"' + wanted.replace('"', '\\"') + '",NULL}'
        assert kept(source.encode()).decode() == (wanted if of is kind else literal)


@pytest.mark.parametrize(
    ("digits", "wanted"), [(0, "-123456"), (2, "-1234.56"), (3, "-123.456"), (-1, "-1234.56")]
)
def test_money_of_the_source_is_what_a_store_has_of_events(digits: int, wanted: str) -> None:
    """Also where the currency has no hundredths: its mirrors keep the text of events."""
    kind, text = PgType("money"), "-$1,234.56"
    money = TypeInfo(790, "pg_catalog", "money", "base", "money", digits)
    domain = money._replace(name="price", kind="domain")
    listed = TypeInfo(791, "pg_catalog", "_money", "array", "array", element=money)
    for of, info, source in (
        (kind, money, text),
        (kind, domain, text),
        (array_of(kind), listed, f'{{"{text}",NULL}}'),
    ):
        for described in (True, False):
            form = source_form(of, {790: money}, info, -1, described=described)
            assert form is not None
            assert form(source) == (wanted if of is kind else [wanted, None])
        kept = kept_text(info)
        assert kept is not None
        literal = f'{{"{wanted}",NULL}}'
        assert kept(source.encode()).decode() == (wanted if of is kind else literal)


@pytest.mark.parametrize(
    ("text", "event"), [("1", True), ("0", False), ("00101", "BQ=="), ("1010000000", "gAI=")]
)
def test_bits_whose_length_postgresql_does_not_tell_have_that_of_their_text(
    text: str, event: Any
) -> None:
    """Of a column that GROUP BY settles, or that is nested, `bit` is all it says of its type."""
    kind, bit = PgType("bit"), TypeInfo(1560, "pg_catalog", "bit", "base", "bit")
    bits = TypeInfo(1561, "pg_catalog", "_bit", "array", "array", element=bit)
    held = {True: "true", False: "false"}.get(event, event)  # in Spark, as text
    nested = PgType("struct", fields=(("b", kind),))
    for of, info, source, wanted, stored in (
        (kind, bit, text, event, held),
        (array_of(kind), bits, f"{{NULL,{text}}}", [None, event], [None, held]),
        (nested, bit, f'{{"b": "{text}"}}', {"b": event}, {"b": held}),
    ):
        form = source_form(of, {1560: bit}, info, -1)
        assert form is not None
        assert form(source) == wanted
        assert same(of, wanted, stored)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("point", ["(1e-300,-2)", "(0.5,0)"]),
        ("line", ["{1,-1,0}"]),
        ("circle", ["<(1,2),3>"]),
        ("lseg", ["[(1,2),(3,4)]"]),
        ("box", ["(3,4),(1,2)"]),
        ("path", ["((1,2),(3,4))", "[(1,2),(3,4)]"]),
        ("polygon", ["((1,2),(3,4),(5,6))", "((1,2),(3,4))", "((1,2),(3,4),(1,2))"]),
    ],
)
def test_a_geometry_is_the_same_as_its_event_says_it_and_as_spark_spells_it(
    name: str, texts: list[str]
) -> None:
    kind, oid = PgType(name), 600
    form = source_form(kind, {}, TypeInfo(oid, "pg_catalog", name, "base", name), -1)
    assert form is not None
    for text in texts:
        event = form(text)
        shown = json.dumps(event).replace("1e-300", "1.0E-300")
        assert same(kind, event, shown)
        assert same(array_of(kind), [event, None], [shown, None])
    assert len({packed((canonical(kind, form(text)),)) for text in texts}) == len(texts)
    other = form(texts[0].replace("1", "7").replace("0.5", "8"))
    assert not same(kind, form(texts[0]), other)
