"""Events in each form of ``[events]`` are read back as the default form has them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc.debezium.table_shapes import column_kind
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.readers.columns import ColumnKind, loss, may_be_null
from cdc.events.readers.records import UNREADABLE, RecordReader, UnknownVersionError
from cdc.events.values.encoder import encoder
from cdc.protocol.relation import Column, Relation, TypeInfo
from tests.support.events.recorded_values import RECORDED, Recorded
from views.spark.lost_columns import lost
from views.table_versions import parse_version

FORMS = {
    "debezium": DEBEZIUM,
    "schemas": replace(OURS, schemas=True),
    "adaptive": replace(OURS, times="adaptive"),
    "adaptive_time_microseconds": replace(OURS, times="adaptive_time_microseconds"),
    "connect": replace(OURS, times="connect"),
    "microseconds": replace(OURS, times="microseconds"),
    "nanoseconds": replace(OURS, times="nanoseconds"),
    "precise": replace(OURS, decimals="precise"),
    "double": replace(OURS, decimals="double"),
    "hex": replace(OURS, binaries="hex"),
    "base64-url-safe": replace(OURS, binaries="base64-url-safe"),
    "bytes": replace(OURS, binaries="bytes"),
    "numeric": replace(OURS, intervals="numeric"),
    "map": replace(OURS, hstores="map"),
    "placeholder": replace(OURS, placeholder="gone"),
}


KEY = b'{"schema":null,"payload":{"id":1}}'
NUMERIC_10_2 = (10 << 16 | 2) + 4


def array_of(base: str, typmod: int, text: str, over: str = "domain") -> Recorded:
    """Of elements whose type has a typmod of its own: the column's array has none."""
    element = TypeInfo(0, "public", "own", over, base, typmod)
    return Recorded(
        "own[]", TypeInfo(0, "public", "_own", "array", "array", -1, element), -1, text, None
    )


OWN_TYPMODS = [
    array_of("timestamp", 3, '{"2024-02-29 12:00:00.5",NULL,infinity}'),
    array_of("timestamp", 0, '{"1969-12-31 23:59:59"}'),
    array_of("time", 3, "{12:00:00.5}"),
    array_of("numeric", NUMERIC_10_2, "{22.20,-1.00,NULL}"),
    array_of("money", 0, "{$22.20}", "base"),
    array_of("money", 3, "{-$22.20}", "base"),
]


def kind_of(value: Recorded) -> ColumnKind:
    """As ``__schemas`` tells it."""
    return column_kind(described(value))


def described(value: Recorded) -> dict[str, Any]:
    """The column in the description of its table."""
    column = Column("v", value.type, value.typmod, key=False)
    (found,) = Relation(1, "public", "t", "d", (column,), ()).describe()["columns"]
    return dict(found)


def encoded(value: Recorded, form: Form) -> Any:
    encode = encoder(value.type, value.typmod, form)
    text = value.text.encode()
    return (text if encode is None else encode(text)).decode()


def record(form: Form, after: str, unchanged: str = "", schema_id: str = "v") -> bytes:
    source = f'"source":{{"commit_lsn":7,"ordinal":1,"schema_id":"{schema_id}"{unchanged}}}'
    event = f'{{"before":null,"after":{after},{source},"op":"u"}}'
    wrapped = f'{{"schema":{{"type":"struct","field":"payload"}},"payload":{event}}}'
    return (wrapped if form.schemas else event).encode()


def read(form: Form, columns: dict[str, ColumnKind], value: bytes) -> str:
    """What the default form has as ``after``."""
    reader = RecordReader(form, {"v": columns}.get)
    _, found = reader.record(KEY, value)
    assert found is not None
    assert not found.startswith(UNREADABLE), found
    return json.dumps(json.loads(found)["after"])


@pytest.mark.parametrize("name", FORMS)
def test_each_type_is_read_back_from_each_form_or_refused(name: str) -> None:
    form = FORMS[name]
    for value in [*RECORDED, *OWN_TYPMODS]:
        column = kind_of(value)
        if loss(form, column) or (form.schemas and is_nested(value)):
            continue  # an array's schema knows of no dimensions
        sent = encoded(value, form)
        if sent == "null":
            assert column.element or may_be_null(form, column), value
            continue
        after = read(form, {"v": column}, record(form, f'{{"v":{sent}}}'))
        ours = f'{{"v": {encoded(value, OURS)}}}'
        assert meaning(after, column) == meaning(ours, column), (value, sent)


def meaning(document: str, column: ColumnKind) -> str:
    """A float may be written with a point or without one."""
    is_float = (column.element or column.base).startswith("float")
    return repr(json.loads(document, parse_int=float if is_float else int))


def is_nested(value: Recorded) -> bool:
    return value.type.element is not None and (value.text[:2] == "{{" or value.text[:1] == "[")


def numeric(precision: int, scale: int) -> int:
    """The typmod."""
    return (precision << 16 | scale) + 4


LOSSES = [
    (replace(OURS, intervals="numeric"), ColumnKind("interval"), "months"),
    (replace(OURS, decimals="precise"), ColumnKind("numeric"), "closing zeros"),
    (replace(OURS, decimals="precise"), ColumnKind("numeric", typmod=NUMERIC_10_2), ""),
    (replace(OURS, decimals="double"), ColumnKind("numeric"), ""),
    (replace(OURS, decimals="double"), ColumnKind("numeric", typmod=numeric(499, 0)), ""),
    (replace(OURS, decimals="double"), ColumnKind("numeric", typmod=numeric(500, 0)), "rounds"),
    (replace(OURS, decimals="double"), ColumnKind("numeric", typmod=numeric(498, 9)), ""),
    (replace(OURS, decimals="double"), ColumnKind("numeric", typmod=numeric(499, 9)), "rounds"),
    (replace(OURS, decimals="double"), ColumnKind("numeric", typmod=numeric(5, 498)), "rounds"),
    (
        replace(OURS, decimals="double"),
        ColumnKind("array", "array", element="numeric", element_typmod=numeric(999, 0)),
        "rounds",
    ),
    (replace(OURS, times="connect"), ColumnKind("timestamp"), "milliseconds"),
    (replace(OURS, times="connect"), ColumnKind("timestamp", typmod=3), ""),
    (replace(OURS, times="connect"), ColumnKind("time", typmod=4), "milliseconds"),
    (replace(OURS, times="connect"), ColumnKind("timestamptz"), ""),
    (replace(OURS, times="nanoseconds"), ColumnKind("timestamp"), "1677"),
    (replace(OURS, times="nanoseconds"), ColumnKind("time"), ""),
    (DEBEZIUM, ColumnKind("array", "array", element="interval"), "months"),
    (DEBEZIUM, ColumnKind("text", treatment="mask"), ""),
    (OURS, ColumnKind("interval"), ""),
]


@pytest.mark.parametrize(("form", "column", "reason"), LOSSES)
def test_a_form_tells_for_which_columns_it_loses(
    form: Form, column: ColumnKind, reason: str
) -> None:
    found = loss(form, column)
    assert reason in found
    assert bool(found) == bool(reason)


def test_a_table_is_described_with_what_decides_the_form_of_elements() -> None:
    """One whose domain was another one is another version of it."""
    two, four = (array_of("numeric", (10 << 16 | s) + 4, "{}") for s in (2, 4))
    assert described(two)["element_typmod"] == NUMERIC_10_2
    ids = {
        Relation(1, "public", "t", "d", (Column("v", one.type, -1, key=False),), ()).schema_id()
        for one in (two, four)
    }
    assert len(ids) == 2
    assert "element_typmod" not in described(next(v for v in RECORDED if v.type.element))


def test_a_description_without_the_typmod_of_elements_is_read_as_before_it_had_one() -> None:
    column = described(array_of("numeric", NUMERIC_10_2, "{}"))
    del column["element_typmod"]
    assert column_kind(column).element_typmod == -1


def test_views_without_mirrors_are_told_the_same_of_arrays_of_domains() -> None:
    """They may read what a domain limits to the digits that a form keeps."""
    form = replace(OURS, times="connect", decimals="precise")
    for value in [*RECORDED, *OWN_TYPMODS]:
        record = {"schema_id": "v", "schema": "s", "table": "t", "key": []}
        (column,) = parse_version(record | {"columns": [described(value)]}).columns
        if value.type.kind not in ("enum", "composite", "range", "multirange"):
            assert lost(form, column) == loss(form, kind_of(value)), value


def test_a_value_that_was_left_out_has_the_placeholder_of_the_default_form() -> None:
    columns = {"v": ColumnKind("text"), "b": ColumnKind("bytea"), "k": ColumnKind("text")}
    after = '{"v":"gone","b":"Z29uZQ==","k":"gone"}'
    value = record(replace(DEBEZIUM, placeholder="gone"), after, ',"unchanged":["v","b"]')
    found = json.loads(read(replace(DEBEZIUM, placeholder="gone"), columns, value))
    assert found == {"v": PLACEHOLDER, "b": PLACEHOLDER, "k": "gone"}


@pytest.mark.parametrize("name", FORMS)
def test_a_text_that_is_the_placeholder_is_told_from_a_value_that_was_left_out(name: str) -> None:
    """As the default form tells it: by a list, which may be empty."""
    form, columns = FORMS[name], {"v": ColumnKind("text"), "w": ColumnKind("text")}
    more = ',"unchanged":null' if form.schemas else ""
    written = record(form, f'{{"v":"{PLACEHOLDER}","w":"a"}}', more)
    assert source_of(form, columns, written)["unchanged"] == []
    left_out = record(form, f'{{"v":"{PLACEHOLDER}","w":"x"}}', ',"unchanged":["w"]')
    assert source_of(form, columns, left_out)["unchanged"] == ["w"]
    assert not source_of(form, columns, record(form, '{"v":"b","w":"a"}', more)).get("unchanged")


def source_of(form: Form, columns: dict[str, ColumnKind], value: bytes) -> dict[str, Any]:
    _, found = RecordReader(form, {"v": columns}.get).record(KEY, value)
    return dict(json.loads(found or b"")["source"])


def test_a_key_is_read_as_its_row_is() -> None:
    reader = RecordReader(DEBEZIUM, {"v": {"d": ColumnKind("date")}}.get)
    value = record(DEBEZIUM, '{"d":19782}')
    key, _ = reader.record(b'{"schema":{},"payload":{"d":19782}}', value)
    assert key == b'{"d":"2024-02-29Z"}'
    assert reader.key(b'{"d":19782}', "v") == key
    with pytest.raises(ValueError, match="not of its table"):
        reader.key(b'{"d":"x"}', "v")


def test_a_tombstone_and_a_truncate_are_read() -> None:
    reader = RecordReader(DEBEZIUM, {"v": {"d": ColumnKind("date")}}.get)
    assert reader.record(b"k", None) == (b"k", None)
    key, value = reader.record(None, record(DEBEZIUM, "null"))
    assert key is None
    assert json.loads(value or b"")["after"] is None


UNREAD = [
    b"no json",
    b'{"schema":{},"payload":null}',
    b'{"op":"c"}',
    record(DEBEZIUM, '{"d":"2024-02-29Z"}'),
    record(DEBEZIUM, '{"d":true}'),
    record(DEBEZIUM, '{"d":1,"n":"no base64"}'),
    record(DEBEZIUM, '{"d":1,"n":null}'),
]


@pytest.mark.parametrize("value", UNREAD)
def test_what_is_not_of_the_form_is_never_taken_for_an_event(value: bytes) -> None:
    """The last one: NULL in a column that has none stands for a value that the form lacks."""
    numeric = ColumnKind("numeric", typmod=NUMERIC_10_2, nullable=False)
    reader = RecordReader(DEBEZIUM, {"v": {"d": ColumnKind("date"), "n": numeric}}.get)
    assert reader.record(b'{"d":1}', value) == (b'{"d":1}', UNREADABLE + value)


def test_an_event_of_a_version_that_is_not_described_is_told_apart() -> None:
    with pytest.raises(UnknownVersionError) as told:
        RecordReader(DEBEZIUM, lambda _: None).record(None, record(DEBEZIUM, "null"))
    assert told.value.schema_id == "v"


def test_numbers_keep_their_digits() -> None:
    columns = {"f": ColumnKind("float8"), "n": ColumnKind("numeric"), "i": ColumnKind("int8")}
    form = replace(OURS, decimals="double")
    after = '{"f":-0,"n":123456789012345678901234567890.10,"i":9223372036854775807}'
    _, found = RecordReader(form, {"v": columns}.get).record(None, record(form, after))
    wanted = b'"after":{"f":-0.0,"n":"123456789012345678901234567890.10","i":9223372036854775807}'
    assert wanted in (found or b"")


def read_numeric(text: str, typmod: int = -1) -> bytes:
    """A number, written and read in mode ``double``."""
    form = replace(OURS, decimals="double")
    kind = TypeInfo(1700, "pg_catalog", "numeric", "base", "numeric")
    encode = encoder(kind, typmod, form)
    assert encode is not None
    columns = {"n": ColumnKind("numeric", typmod=typmod)}
    written = record(form, f'{{"n":{encode(text.encode()).decode()}}}')
    return RecordReader(form, {"v": columns}.get).record(None, written)[1] or b""


@pytest.mark.parametrize("digits", [29, 309, 499])
def test_an_integer_of_many_digits_is_read(digits: int) -> None:
    text = "-" + "7" * digits
    for typmod in (-1, numeric(499, 0)):
        assert b'"after":{"n":"%b"}' % text.encode() in read_numeric(text, typmod)


@pytest.mark.parametrize(
    "text",
    ["7" * 501, "-1" + "0" * 600, "0." + "3" * 600, "123." + "4" * 600, "-0." + "0" * 600 + "1"],
)
def test_a_number_that_is_rounded_is_refused(text: str) -> None:
    assert read_numeric(text).startswith(UNREADABLE)
