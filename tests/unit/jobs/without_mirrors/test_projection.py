"""Folded changes through a view's SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from cdc.errors import HeadwaterError, ViewError
from cdc.events.codes import PLACEHOLDER
from jobs.spark.faults import UnknownSchemaError, translate
from jobs.without_mirrors.fold import Step
from jobs.without_mirrors.projection import filled_rows_of, rows_of
from tests.support.events.events import Record, delete, event, kafka_frame
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, INT8, TEXT, PgType, from_typmod, numeric

OLD = TableVersion(
    "a" * 16, "public", "t", (TableColumn("id", INT4), TableColumn("body", TEXT)), ("id",)
)
NEW = TableVersion(
    "b" * 16,
    "public",
    "t",
    (TableColumn("id", INT8), TableColumn("body", TEXT), TableColumn("n", numeric(10, 2))),
    ("id",),
)


def run(
    spark: SparkSession,
    sql: str,
    records: Sequence[Record],
    versions: Sequence[TableVersion] = (OLD, NEW),
    steps: Callable[[ResolvedView, Mapping[str, TableVersion]], Step] = rows_of,
) -> dict[Any, Row]:
    """The rows a sink would get, by ``id``."""
    view = resolve(parse_view("v", "s", ["id"], sql), versions[-1])
    known = {version.schema_id: version for version in versions}
    try:
        rows = steps(view, known)(kafka_frame(spark, records)).collect()
    except Exception as error:
        raise translate(error, "v") from error
    return {row["id"]: row for row in rows}


def new(lsn: int, row: dict[str, Any], op: str = "c") -> Record:
    return event(lsn, 1, row, op, schema_id=NEW.schema_id)


def test_rows_written_under_two_versions_of_the_table_come_out_as_the_newest(
    spark: SparkSession,
) -> None:
    rows = run(
        spark,
        "select * from t",
        [
            event(1, 1, {"id": 1, "body": "old"}, schema_id=OLD.schema_id),
            new(2, {"id": 5_000_000_000, "body": "new", "n": "1.50"}),
        ],
    )
    assert (rows[1]["body"], rows[1]["n"]) == ("old", None)
    assert rows[5_000_000_000]["n"] == Decimal("1.50")


def test_where_turns_a_row_that_left_it_into_a_delete_at_its_position(spark: SparkSession) -> None:
    rows = run(
        spark,
        "select id, n * 2 as twice from t where n > 1",
        [
            new(1, {"id": 1, "body": "", "n": "2.00"}),
            new(2, {"id": 2, "body": "", "n": "0.50"}),
            new(3, {"id": 3, "body": "", "n": None}),
            *delete(4, 1, {"id": 4, "body": None, "n": None}, NEW.schema_id),
        ],
    )
    assert {id_: row["__deleted"] for id_, row in rows.items()} == {
        1: False,
        2: True,
        3: True,
        4: True,
    }
    assert rows[1]["twice"] == Decimal("4.00")
    assert rows[2]["twice"] is None
    assert rows[2]["__commit_lsn"] == 2


def test_text_that_an_update_set_to_the_placeholder_is_a_value(spark: SparkSession) -> None:
    change = {"id": 1, "body": PLACEHOLDER, "n": "1.00"}
    record = event(1, 1, change, "u", schema_id=NEW.schema_id, unchanged=[])
    row = run(spark, "select id, body, lower(body) as small from t", [record])[1]
    assert (row["body"], row["small"], row["__unchanged"]) == (PLACEHOLDER, PLACEHOLDER, [])


def test_an_unchanged_toast_value_is_named_and_left_null(spark: SparkSession) -> None:
    row = run(
        spark,
        "select id, body as content from t",
        [new(1, {"id": 1, "body": PLACEHOLDER, "n": "1.00"}, "u")],
    )[1]
    assert (row["content"], row["__unchanged"]) == (None, ["content"])


@pytest.mark.parametrize(
    "sql", ["select id, upper(body) as b from t", "select id from t where body = 'x'"]
)
def test_an_unchanged_toast_value_in_an_expression_stops_the_view(
    spark: SparkSession, sql: str
) -> None:
    with pytest.raises(ViewError, match=r"'body' of public\.t .* events-0-0\. Run `ALTER TABLE"):
        run(spark, sql, [new(1, {"id": 1, "body": PLACEHOLDER, "n": None}, "u")])


def test_an_expression_waits_for_a_value_that_the_batch_may_hold(spark: SparkSession) -> None:
    """A first pass tells that there is a gap, a second one fills it, and stops where it cannot."""
    gap = [
        new(1, {"id": 1, "body": "text", "n": "1.00"}),
        new(2, {"id": 1, "body": PLACEHOLDER, "n": "2.00"}, "u"),
    ]
    view = resolve(parse_view("v", "s", ["id"], "select id, upper(body) as b from t"), NEW)
    versions = {NEW.schema_id: NEW}
    first = rows_of(view, versions)(kafka_frame(spark, gap)).collect()
    assert [(row["b"], row["__event"]["gap"]) for row in first] == [(None, True)]
    second = filled_rows_of(view, versions)
    assert [row["b"] for row in second(kafka_frame(spark, gap)).collect()] == ["TEXT"]
    with pytest.raises(Exception, match="events-0-1") as caught:
        second(kafka_frame(spark, [new(1, {**ROW, "body": PLACEHOLDER}, "u"), gap[1]])).collect()
    assert isinstance(translate(caught.value, "v"), ViewError)


ROW = {"id": 1, "body": "text", "n": "1.00"}


@pytest.mark.parametrize("op", ["c", "r"])
def test_the_placeholder_may_be_what_a_row_was_made_with(spark: SparkSession, op: str) -> None:
    row = run(spark, "select id, body from t", [new(1, {**ROW, "body": PLACEHOLDER}, op)])[1]
    assert (row["body"], row["__unchanged"]) == (PLACEHOLDER, [])


@pytest.mark.parametrize(("base", "element"), [("bytea", None), ("array", "text")])
def test_a_row_that_was_gone_before_its_values_could_be_read_passes(
    spark: SparkSession, base: str, element: str | None
) -> None:
    """Capture asks the source for what a key change left out; the delete follows."""
    table = table_of(base, -1, element)
    records = [event(1, 1, {"id": 1, "v": PLACEHOLDER}, schema_id=table.schema_id)]
    row = run(spark, "select * from t", records, [table])[1]
    assert (row["v"], row["__unchanged"], row["__deleted"]) == (None, [], False)


def test_a_schema_that_is_not_known_is_told_apart_from_other_faults(spark: SparkSession) -> None:
    with pytest.raises(UnknownSchemaError, match="events-0-0"):
        run(spark, "select id from t", [event(1, 1, {"id": 1}, schema_id="f" * 16)])


def test_a_type_that_was_narrowed_stops_at_the_first_old_value(spark: SparkSession) -> None:
    with pytest.raises(ViewError, match="was text and is int4 now"):
        run(
            spark,
            "select id, body from t",
            [event(1, 1, {"id": 1, "body": "7"}, schema_id=OLD.schema_id)],
            (OLD, TableVersion("c" * 16, "public", "t", (*NEW.columns[:1], INT_BODY), ("id",))),
        )


INT_BODY = TableColumn("body", INT4)
RETYPED = [
    ("bytea", "text", "aGVsbG8="),
    ("time", "text", "12:00:00Z"),
    ("bpchar", "text", "a  "),
    ("interval", "text", "P1D"),
    ("text", "time", "12:00:00"),
    ("int4", "interval", "7"),
]


def versions_of(old: str, new: str) -> tuple[TableVersion, TableVersion]:
    """A table whose column ``v`` changed its type."""

    def version(id_: str, base: str) -> TableVersion:
        columns = (TableColumn("id", INT4), TableColumn("v", PgType(base)))
        return TableVersion(id_ * 16, "public", "t", columns, ("id",))

    return version("1", old), version("2", new)


@pytest.mark.parametrize(("old", "new", "form"), RETYPED)
@pytest.mark.parametrize("left_out", [False, True])
def test_a_form_that_the_new_type_does_not_have_is_not_taken_for_a_value(
    spark: SparkSession, old: str, new: str, form: str, left_out: bool
) -> None:
    """Nor is it when the batch fills an unchanged value from before the change with it."""
    versions = versions_of(old, new)
    records = [event(1, 1, {"id": 1, "v": form}, schema_id=versions[0].schema_id)]
    if left_out:
        records.append(event(2, 1, {"id": 1, "v": PLACEHOLDER}, "u", schema_id="2" * 16))
    with pytest.raises(ViewError, match=f"was {old} and is {new} now"):
        run(spark, "select * from t", records, versions, filled_rows_of)


@pytest.mark.parametrize(("old", "new"), [("uuid", "text"), ("int4", "varchar"), ("text", "json")])
def test_a_form_that_both_types_have_stays(spark: SparkSession, old: str, new: str) -> None:
    versions = versions_of(old, new)
    records = [event(1, 1, {"id": 1, "v": "7"}, schema_id=versions[0].schema_id)]
    assert run(spark, "select * from t", records, versions)[1]["v"] == "7"


FORMS = [
    ("int2", -1, None, -7, -7),
    ("oid", -1, None, 4294967295, 4294967295),
    ("float4", -1, None, 1.5, 1.5),
    ("float8", -1, None, "-Infinity", float("-inf")),
    ("numeric", (10 << 16 | 2) + 4, None, "12.30", Decimal("12.30")),
    ("numeric", -1, None, "NAN", "NAN"),
    ("bool", -1, None, True, True),
    ("date", -1, None, "2024-02-29Z", date(2024, 2, 29)),
    ("timestamp", -1, None, "2024-02-29T12:00:00.123456Z", datetime(2024, 2, 29, 12, 0, 0, 123456)),
    ("bytea", -1, None, "AP8=", b"\x00\xff"),
    ("json", -1, None, '{"a": 1.0}', '{"a": 1.0}'),
    ("array", -1, "int4", [1, None, 3], [1, None, 3]),
    ("array", -1, "text", ["a", None], ["a", None]),
    ("array", -1, "text", ["[[a]]", ""], ["[[a]]", ""]),
    ("array", -1, "text", [], []),
    ("array", (10 << 16 | 2) + 4, "numeric", ["1.50"], [Decimal("1.50")]),
    ("array", -1, "date", ["2024-02-29Z"], [date(2024, 2, 29)]),
]


def table_of(base: str, typmod: int, element: str | None) -> TableVersion:
    columns = (TableColumn("id", INT4), TableColumn("v", from_typmod(base, typmod, element)))
    return TableVersion("d" * 16, "public", "t", columns, ("id",))


@pytest.mark.parametrize(("base", "typmod", "element", "form", "value"), FORMS)
def test_every_form_becomes_its_value(
    spark: SparkSession, base: str, typmod: int, element: str | None, form: Any, value: Any
) -> None:
    table = table_of(base, typmod, element)
    records = [event(1, 1, {"id": 1, "v": form}, schema_id=table.schema_id)]
    assert run(spark, "select * from t", records, [table])[1]["v"] == value


def test_timestamptz_is_an_instant(spark: SparkSession) -> None:
    table = table_of("timestamptz", -1, None)
    form = "2024-02-29T12:00:00Z"
    view = resolve(parse_view("v", "s", ["id"], "select * from t"), table)
    frame = kafka_frame(spark, [event(1, 1, {"id": 1, "v": form}, schema_id=table.schema_id)])
    rows = rows_of(view, {table.schema_id: table})(frame)
    micros = rows.selectExpr("unix_micros(v)").collect()[0][0]
    assert micros == datetime(2024, 2, 29, 12, tzinfo=UTC).timestamp() * 1e6


@pytest.mark.parametrize(
    ("base", "typmod", "element", "form"),
    [
        ("date", -1, None, "infinity"),
        ("date", -1, None, "+32768-01-01Z"),
        ("date", -1, None, "+5874897-12-31Z"),
        ("timestamp", -1, None, "+32768-01-01T00:00:00Z"),
        ("timestamptz", -1, None, "+294276-12-31T23:59:59.999999Z"),
        ("numeric", (10 << 16 | 2) + 4, None, "NAN"),
        ("array", -1, "date", ["infinity"]),
        ("array", -1, "date", ["2024-02-29Z", "+32768-01-01Z"]),
        ("array", -1, "text", [["a", "b"], ["c", "d"]]),
        ("array", -1, "text", [[["a"]]]),
        ("array", -1, "int4", [[1, 2]]),
        ("array", -1, "text", "[0:1]={a,b}"),
        ("int4", -1, None, "text"),
    ],
)
def test_a_value_that_cannot_be_held_is_an_error_that_names_the_record(
    spark: SparkSession, base: str, typmod: int, element: str | None, form: Any
) -> None:
    table = table_of(base, typmod, element)
    records = [event(1, 1, {"id": 1, "v": form}, schema_id=table.schema_id)]
    with pytest.raises(HeadwaterError, match=r"view v: column 'v': .* at events-0-0"):
        run(spark, "select * from t", records, [table])


def test_a_type_error_of_the_sql_is_named_without_the_value(spark: SparkSession) -> None:
    with pytest.raises(ViewError, match="CAST_INVALID_INPUT") as caught:
        run(spark, "select id, body::int as x from t", [new(1, {"id": 1, "body": "secret"})])
    assert "secret" not in str(caught.value)


def test_a_table_column_may_have_any_name(spark: SparkSession) -> None:
    names = ("key", "op", "a.b", "we`ird", "Upper")
    columns = (TableColumn("id", INT4), *(TableColumn(name, PgType("text")) for name in names))
    table = TableVersion("e" * 16, "public", "t", columns, ("id",))
    row = {"id": 1, **{name: name for name in names}}
    sql = 'select *, lower("Upper") || "a.b" as x from t where "op" = \'op\''
    found = run(spark, sql, [event(1, 1, row, schema_id=table.schema_id)], [table])[1]
    assert [found[name] for name in names] == list(names)
    assert found["x"] == "uppera.b"
