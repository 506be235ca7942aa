"""Encoders of values: total on any bytes, and their forms at the edges."""

from __future__ import annotations

import json
from base64 import b64decode
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdc.errors import ProtocolError
from cdc.events.values.encoder import column_encoder, encoder, quote
from cdc.protocol.relation import TypeInfo

NAMES = [
    *("bool", "float4", "float8", "numeric", "money", "text", "varchar", "bpchar", "name"),
    *("uuid", "json", "jsonb", "inet", "macaddr", "tsvector", "bytea", "bit", "varbit", "date"),
    *("time", "timetz", "timestamp", "timestamptz", "interval", "hstore", "point", "line"),
    *(
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "citext",
        "an_unknown_type",
        "vector",
        "sparsevec",
    ),
]
INTEGERS = ["int2", "int4", "int8", "oid"]


def base(name: str, kind: str = "base") -> TypeInfo:
    return TypeInfo(0, "pg_catalog", name, kind, name)


def array(element: TypeInfo, delimiter: str = ",") -> TypeInfo:
    name = f"_{element.name}"
    return TypeInfo(0, "pg_catalog", name, "array", "array", -1, element, delimiter)


def encode(type: TypeInfo, text: bytes, typmod: int = -1) -> bytes:
    found = encoder(type, typmod)
    assert found is not None
    return found(text)


# Bytes that look like values: what they are made of, and fragments that decoders branch on.
FRAGMENTS = [
    *(b"2024-02-29", b"12:34:56", b".5", b"+00", b" BC", b"infinity", b"-infinity", b"NaN"),
    *(b"P1Y", b"T5S", b"\\x", b"00ff", b"{", b"}", b"(", b")", b"[", b"]", b"<", b">", b",", b";"),
    *(
        b'"',
        b"\\",
        b"=>",
        b"NULL",
        b"a",
        b" ",
        b"1",
        b"-",
        b"e+20",
        b"t",
        b"$",
        b"0:1]=",
        b".",
        b"}/5",
        b"1:2",
    ),
    *(b"\x00", b"\n", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80"),
]
LOOKALIKES = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join)
TYPES = st.one_of(
    st.sampled_from([base(name) for name in NAMES]),
    st.sampled_from([array(base(name)) for name in NAMES + INTEGERS]),
    st.sampled_from([base(kind, kind) for kind in ("enum", "composite", "range", "multirange")]),
    st.just(array(base("box"), ";")),
)


@settings(max_examples=1500, deadline=None)
@given(TYPES, st.one_of(LOOKALIKES, st.binary(max_size=40)), st.integers(-1, 6))
@example(base("bit"), b"1" * 5000, 5000)
@example(array(base("text")), b"{" * 5000, -1)
@example(array(base("text")), b"{" * 50 + b"a" + b"}" * 50, -1)
@example(array(base("text")), b'{"' + b"\\" * 9999 + b'"}', -1)
@example(base("date"), b"9" * 5000 + b"-01-01", -1)
def test_any_bytes_become_json_or_a_protocol_error(
    type: TypeInfo, text: bytes, typmod: int
) -> None:
    try:
        document = encode(type, text, typmod)
    except ProtocolError as raised:
        error = raised
    else:
        json.loads(document)
        return
    # An array whose element is wrong names the element's type.
    assert type.name.removeprefix("_") in error.message
    assert "\n" not in str(error)


@given(st.text())
def test_quoted_text_is_read_back(text: str) -> None:
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        return
    assert json.loads(quote(octets)) == text


@pytest.mark.parametrize("length", [10, 1000])
def test_quoted_text_has_no_escapes_that_json_does_not_need(length: int) -> None:
    text = "é😀\u2028/" * length
    assert quote(text.encode()).decode() == f'"{text}"'


@pytest.mark.parametrize("length", [1, 1000])
@pytest.mark.parametrize("octet", [*range(0x20), ord('"'), ord("\\")])
def test_what_json_forbids_is_escaped_at_any_length(octet: int, length: int) -> None:
    text = b"x" * length + bytes([octet])
    document = quote(text)
    assert json.loads(document).encode() == text
    assert len(document) > len(text) + 2


def test_integers_need_no_encoder() -> None:
    assert [encoder(base(name), -1) for name in INTEGERS] == [None] * 4
    assert encoder(TypeInfo(0, "public", "positive", "domain", "int4"), -1) is None


def test_a_users_type_that_is_named_like_an_integer_is_text() -> None:
    assert encode(base("int4", "enum"), b"one") == b'"one"'


@pytest.mark.parametrize("text", [b"1", b"-0", b"1e+20", b"5e-324", b"-2.5e+07", b"0.001"])
def test_postgresqls_floats_are_json_numbers(text: bytes) -> None:
    assert encode(base("float8"), text) == text
    assert json.loads(text) == float(text)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_numerics_keep_every_digit(value: Decimal) -> None:
    text = f"{value:f}".encode()
    assert encode(base("numeric"), text) == b'"%b"' % text


@pytest.mark.parametrize(
    ("digits", "text", "expected"),
    [
        (0, "$12.34", "1234"), (0, "-$0.05", "-5"), (0, "$0.00", "0"), (0, "$1,234.50", "123450"),
        (3, "$123.40", "12.340"), (3, "-$0.05", "-0.005"), (3, "$0.00", "0.000"),
        (2, "-$1,234.50", "-1234.50"), (-1, "$0.05", "0.05"),
    ],
)  # fmt: skip
def test_money_has_the_digits_of_its_currency(digits: int, text: str, expected: str) -> None:
    assert encode(base("money"), text.encode(), digits).decode() == f'"{expected}"'


@pytest.mark.parametrize("text", ["¥1,500", "1.234,56 €", "$1.234", "(1.50)"])
def test_money_of_other_locales_stays_text(text: str) -> None:
    assert encode(base("money"), text.encode()).decode() == f'"{text}"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0001-12-31", b'"0001-12-31Z"'),
        (b"0001-12-31 BC", b'"0000-12-31Z"'),
        (b"0002-12-31 BC", b'"-0001-12-31Z"'),
        (b"4714-11-24 BC", b'"-4713-11-24Z"'),
        (b"5874897-12-31", b'"+5874897-12-31Z"'),
    ],
)
def test_years_are_astronomical_and_signed_beyond_four_digits(text: bytes, expected: bytes) -> None:
    assert encode(base("date"), text) == expected


@pytest.mark.parametrize(
    ("typmod", "expected"),
    [
        (-1, b'"2024-02-29T12:00:00.500000Z"'),
        (6, b'"2024-02-29T12:00:00.500000Z"'),
        (1, b'"2024-02-29T12:00:00.5Z"'),
        (0, b'"2024-02-29T12:00:00.5Z"'),
    ],
)
def test_timestamptz_has_the_columns_precision_and_never_less_than_its_value(
    typmod: int, expected: bytes
) -> None:
    assert encode(base("timestamptz"), b"2024-02-29 12:00:00.5+00", typmod) == expected


def test_a_session_in_another_time_zone_is_refused() -> None:
    with pytest.raises(ProtocolError, match="type timestamptz"):
        encode(base("timestamptz"), b"2024-02-29 12:00:00+01")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"12:34:56-00:00:30", b'"12:35:26Z"'),
        (b"00:00:00+15:59:59", b'"08:00:01Z"'),
        (b"24:00:00.0+00", b'"24:00:00.0Z"'),
        (b"24:00:00+01", b'"23:00:00Z"'),
    ],
)
def test_timetz_is_the_time_of_day_in_utc(text: bytes, expected: bytes) -> None:
    assert encode(base("timetz"), text) == expected


def test_bit_without_a_length_keeps_its_own() -> None:
    assert encode(base("bit"), b"0011") == b'"0011"'


ELEMENTS = st.recursive(
    st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=8)), max_size=4),
    lambda inner: st.lists(inner, min_size=1, max_size=3),
    max_leaves=6,
)


def array_out(value: object, delimiter: str) -> str:
    """An array literal, with quotes around everything that may have them."""
    if isinstance(value, list):
        return "{" + delimiter.join(array_out(item, delimiter) for item in value) + "}"
    if value is None:
        return "NULL"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@given(ELEMENTS, st.sampled_from([",", ";"]))
def test_arrays_of_any_text_and_depth_are_read_back(value: list[object], delimiter: str) -> None:
    literal = array_out(value, delimiter).encode()
    assert json.loads(encode(array(base("text"), delimiter), literal)) == value


def test_bare_elements_are_taken_as_they_stand_and_only_bare_null_is_null() -> None:
    assert encode(array(base("text")), b'{a,NULL,"NULL",null}') == b'["a",null,"NULL","null"]'


def test_an_array_of_integers_with_another_delimiter_is_refused() -> None:
    with pytest.raises(ProtocolError, match="type int4"):
        encode(array(base("int4")), b"{1;2}")


def test_hstore_keeps_null_apart_from_the_word() -> None:
    document = encode(base("hstore"), rb'"a"=>NULL, "b\"\\"=>"NULL"')
    assert json.loads(json.loads(document)) == {"a": None, 'b"\\': "NULL"}


@settings(max_examples=600, deadline=None)
@given(TYPES, st.lists(st.one_of(LOOKALIKES, st.sampled_from([b"1", b"-2.50", b"abc"]))))
@example(base("text"), [b"\xc3", b"\xa9"])
@example(base("numeric"), [b"1", b"", b"2"])
@example(base("numeric"), [b"1", b"NaN"])
def test_a_column_at_once_is_its_values_one_by_one(type: TypeInfo, values: list[bytes]) -> None:
    values = [value for value in values if b"\0" not in value]  # PostgreSQL has no such text
    of_column = column_encoder(type, -1)
    assert of_column is not None
    try:
        expected = [encode(type, value) for value in values]
    except ProtocolError:
        with pytest.raises(ProtocolError):
            of_column(values)
    else:
        assert of_column(values) == expected


@pytest.mark.parametrize(
    ("text", "points"),
    [
        (b"((1,2),(3,4),(5,6))", 4),
        (b"((1,2),(3,4),(1,2))", 3),
        (b"((0,0),(3,4),(-0,0))", 3),
        (b"((1,1))", 1),
        (b"((NaN,1),(3,4),(NaN,1))", 4),
    ],
)
def test_a_polygon_is_closed_once_as_debezium_closes_it(text: bytes, points: int) -> None:
    event = json.loads(encode(base("polygon"), text))
    wkb = b64decode(event["wkb"])
    assert event["extensions"].get("closed") == (None if points == 4 else "true")
    assert int.from_bytes(wkb[9:13], "little") == points
    assert len(wkb) == 13 + 16 * points
