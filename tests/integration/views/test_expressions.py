"""Every construct that views let through, evaluated by a real PostgreSQL and by Spark.

The rows go the way they go in production: PostgreSQL's own text, the event's form of it, the
column's Spark type, the translated expression. Results are compared as values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.types.string import TextLoader

from jobs.spark.faults import UnfitValueError, translate
from jobs.without_mirrors.fold import fold, parse
from jobs.without_mirrors.projection import project
from tests.support.events.events import event, kafka_frame
from tests.support.expressions import BEFORE_ONE, COLUMNS, EXPRESSIONS, ROWS
from tests.support.servers.spark import compiled
from views.parse.definition import parse_view
from views.parse.expression_parts import in_postgres as written
from views.spark.resolution import resolve
from views.table_versions import TableColumn, TableVersion
from views.types import from_typmod

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _form(base: str, value: Any) -> Any:
    """The value as an event carries it."""
    if value is None:
        return None
    if base == "date":
        return f"{BEFORE_ONE.get(value, '+' * (len(value) == 11) + value)}Z"
    if base in ("timestamp", "timestamptz"):
        return value.replace("+00", "").replace(" ", "T") + "Z"
    return value


@pytest.fixture(scope="module")
def table() -> TableVersion:
    columns = [TableColumn("id", from_typmod("int4", -1, None))]
    columns += [
        TableColumn(name, from_typmod(base, typmod, element))
        for name, _, base, typmod, element, _ in COLUMNS
    ]
    return TableVersion("a" * 16, "public", "samples", tuple(columns), ("id",))


@pytest.fixture(scope="module")
def in_postgres(postgres: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set timezone to 'UTC'")
        for kind in ("json", "jsonb"):
            connection.adapters.register_loader(kind, TextLoader)
        ddl = ", ".join(f"{name} {kind}" for name, kind, *_ in COLUMNS)
        connection.execute(f"create temp table samples (id int4 primary key, {ddl})".encode())
        names = sql.SQL(", ").join(sql.Identifier(name) for name, *_ in COLUMNS)
        marks = sql.SQL(", ").join(sql.Placeholder() for _ in COLUMNS)
        insert = sql.SQL("insert into samples (id, {}) values (%s, {})").format(names, marks)
        for i in range(ROWS):
            connection.execute(insert, [i, *(values[i] for *_, values in COLUMNS)])
        yield connection


@pytest.fixture(scope="module")
def in_spark(spark: SparkSession, table: TableVersion) -> dict[str, list[Any]]:
    """All expressions in one view, or the error of those that fail."""
    records = [
        event(
            1,
            i + 1,
            {"id": i, **{name: _form(base, values[i]) for name, _, base, _, _, values in COLUMNS}},
            schema_id=table.schema_id,
        )
        for i in range(ROWS)
    ]
    columns = [column.name for column in table.columns]
    events = fold()(parse(columns, {})(kafka_frame(spark, records))).persist()
    results: dict[str, Any] = {}
    with compiled(spark):
        for start in range(0, len(EXPRESSIONS), 40):
            part = EXPRESSIONS[start : start + 40]
            try:
                results |= _evaluated(events, table, part)
            except Exception:  # tell which one it is
                for text in part:
                    try:
                        results |= _evaluated(events, table, [text])
                    except Exception as error:
                        results[text] = [str(translate(error, "v"))]
    return results


def _evaluated(events: DataFrame, table: TableVersion, texts: list[str]) -> dict[str, list[Any]]:
    columns = ", ".join(f"{text} as e{i}" for i, text in enumerate(texts))
    view = resolve(parse_view("v", "s", ["id"], f"select id, {columns} from samples"), table)
    rows = project(view, {table.schema_id: table})(events).orderBy("id").toArrow().to_pylist()
    return {text: [row[f"e{i}"] for row in rows] for i, text in enumerate(texts)}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_spark_computes_what_postgresql_computes(
    text: str,
    in_spark: dict[str, list[Any]],
    in_postgres: psycopg.Connection[tuple[Any, ...]],
) -> None:
    answer = in_postgres.execute(f"select {text} from samples order by id".encode())
    assert answer.description is not None
    single = answer.description[0].type_code == _FLOAT4
    expected = [_comparable(row[0], single) for row in answer.fetchall()]
    assert [_comparable(value) for value in in_spark[text]] == expected


# What PostgreSQL refuses too; and dates and instants in forms whose meaning depends on settings.
_REFUSED = [
    (r'{"a": "\u0000"}', "j -> 'b'"), (r'{"a": "\ud800"}', "j ->> 'a'"),
    ('{"a": "x"}', "(j ->> 'a')::int"), ('{"a": "o"}', "(j ->> 'a')::boolean"),
    ('{"a": "5"}', "(j ->> 'a')::uuid"), ('{"a": "1e"}', "(j ->> 'a')::numeric"),
    ('{"a": "2024-02-30"}', "(j ->> 'a')::date"), ('{"a": "29/02/2024"}', "(j ->> 'a')::date"),
    ('{"a": "2024-02-29 12:34:56"}', "(j ->> 'a')::timestamptz"),
    ('{"a": "now"}', "(j ->> 'a')::timestamp"), ('{"a": 1}', "json_array_length(j -> 'a')"),
]  # fmt: skip


def test_a_value_that_is_refused_is_poison_of_its_row(
    spark: SparkSession, table: TableVersion
) -> None:
    from pyspark.errors import PySparkException

    for number, (document, text) in enumerate(_REFUSED):
        row = {**dict.fromkeys(column.name for column in table.columns), "id": 1, "j": document}
        records = [event(1, 1, row, schema_id=table.schema_id)]
        events = fold()(parse(["id", "j"], {})(kafka_frame(spark, records)))
        found: Exception | None = None
        try:
            _evaluated(events, table, [text])
        except PySparkException as error:
            found = translate(error, "v")
        assert isinstance(found, UnfitValueError), (number, text, found)


def test_postgresql_is_given_its_own_words_back(
    in_postgres: psycopg.Connection[tuple[Any, ...]],
) -> None:
    differ = []
    for text in EXPRESSIONS:
        statement = parse_view("v", "s", ["id"], f"select {text} as e from samples").statement
        words = written(statement.expressions[0].this)
        answer = in_postgres.execute(f"select {text}, {words} from samples".encode())
        assert answer.description is not None
        one, other = answer.description
        same = all(a == b for a, b in answer.fetchall()) and one.type_code == other.type_code
        differ += [] if same else [(text, words)]
    assert not differ


_FLOAT4 = 700


def _comparable(value: Any, single: bool = False) -> Any:
    if isinstance(value, float):
        exact = struct.unpack("f", struct.pack("f", value))[0] if single else value
        return "NaN" if math.isnan(value) else exact
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return str(value) if isinstance(value, UUID) else value
