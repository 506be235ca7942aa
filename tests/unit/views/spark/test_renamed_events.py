"""Events written under other names of a table's columns than a view has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from cdc.errors import ViewError
from cdc.events.codes import PLACEHOLDER
from jobs.sinks.contract import DELETED, UNCHANGED
from jobs.spark.faults import POISON, translate
from jobs.without_mirrors.fold import Step
from jobs.without_mirrors.projection import each_row_of, filled_rows_of, loaded_rows_of, rows_of
from tests.support.events.events import Record, delete, event, kafka_frame, snapshot
from views.parse.definition import parse_view
from views.spark.generation_names import begun, seen
from views.spark.resolution import ResolvedView, resolve
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT

SQL = "select id, a, b from t"


def version(id_: str, *columns: tuple[int, str], key: str = "id") -> TableVersion:
    made = tuple(TableColumn(name, INT4 if at == 1 else TEXT, True, at) for at, name in columns)
    return TableVersion(id_ * 16, "public", "t", made, (key,), 16400)


WAS = version("a", (1, "id"), (2, "a"), (3, "b"))
RENAMED = version("b", (1, "id"), (2, "x"), (3, "b"))
SWAPPED = version("c", (1, "id"), (2, "b"), (3, "a"))
ANOTHER = version("d", (1, "id"), (2, "x"), (3, "b"), (4, "a"))
KEYED = version("e", (1, "no"), (2, "a"), (3, "b"), key="no")
VERSIONS = {one.schema_id: seen(one, begun(WAS)) for one in (WAS, RENAMED, SWAPPED, ANOTHER, KEYED)}

Steps = Callable[[ResolvedView, Mapping[str, TableVersion]], Step]


def run(
    spark: SparkSession,
    records: Sequence[Record],
    steps: Steps = rows_of,
    versions: Mapping[str, TableVersion] = VERSIONS,
) -> list[Row]:
    view = resolve(parse_view("v", "s", ["id"], SQL), VERSIONS[WAS.schema_id])
    rows = steps(view, versions)(kafka_frame(spark, records)).collect()
    return sorted(rows, key=lambda row: (row["id"], row["__commit_lsn"]))


def written(of: TableVersion, lsn: int, op: str = "c", **row: Any) -> Record:
    unchanged = [name for name, value in row.items() if value == PLACEHOLDER]
    return event(lsn, 1, row, op, of.key, of.schema_id, unchanged or None)


@pytest.mark.parametrize("steps", [rows_of, filled_rows_of, each_row_of])
def test_values_are_read_by_the_names_of_their_version(spark: SparkSession, steps: Steps) -> None:
    records = [
        written(WAS, 1, id=1, a="a1", b="b1"),
        written(RENAMED, 2, id=2, x="a2", b="b2"),
        written(SWAPPED, 3, id=3, b="a3", a="b3"),
        written(ANOTHER, 4, id=4, x="a4", b="b4", a="not a"),
        written(KEYED, 5, no=5, a="a5", b="b5"),
    ]
    rows = run(spark, records, steps)
    assert [(row.id, row.a, row.b) for row in rows] == [(i, f"a{i}", f"b{i}") for i in range(1, 6)]


def test_a_snapshots_rows_as_well(spark: SparkSession) -> None:
    records = [snapshot(1, {"id": 1, "b": "a1", "a": "b1"}, SWAPPED.schema_id)]
    (row,) = run(spark, records, loaded_rows_of)
    assert (row.a, row.b) == ("a1", "b1")


def test_values_that_an_update_left_alone_are_named_as_the_view_names_them(
    spark: SparkSession,
) -> None:
    records = [
        written(SWAPPED, 1, "u", id=1, b=PLACEHOLDER, a="b1"),
        written(ANOTHER, 2, "u", id=2, x="a2", b="b2", a=PLACEHOLDER),
    ]
    rows = run(spark, records)
    assert [(row.a, row.b, row[UNCHANGED]) for row in rows] == [
        (None, "b1", ["a"]),
        ("a2", "b2", []),
    ]


@pytest.mark.parametrize("steps", [filled_rows_of, each_row_of])
def test_they_are_found_in_the_batch_under_their_older_name(
    spark: SparkSession, steps: Steps
) -> None:
    records = [
        written(WAS, 1, id=1, a="a1", b="b1"),
        written(SWAPPED, 2, "u", id=1, b=PLACEHOLDER, a="b2"),
        written(KEYED, 3, "u", no=1, a="a3", b=PLACEHOLDER),
    ]
    *_, row = run(spark, records, steps)
    assert (row.a, row.b, row[UNCHANGED]) == ("a3", "b2", [])


def test_a_row_is_one_under_both_names_of_its_key(spark: SparkSession) -> None:
    gone = event(3, 1, {"no": 1, "a": None, "b": None}, "d", ("no",), KEYED.schema_id)
    records = [
        written(WAS, 1, id=1, a="a1", b="b1"),
        gone,
        (gone[0], None),
        *delete(2, 1, {"id": 2, "a": None, "b": None}, WAS.schema_id),
        written(KEYED, 4, no=2, a="a4", b="b4"),
    ]
    rows = run(spark, records)
    assert [(row.id, row[DELETED], row.a) for row in rows] == [(1, True, None), (2, False, "a4")]


@pytest.mark.parametrize("steps", [rows_of, filled_rows_of, each_row_of])
def test_events_of_a_version_that_is_not_certain_stop_the_view(
    spark: SparkSession, steps: Steps
) -> None:
    """Also one that a later event replaces: its values may be filled in."""
    unsure = replace(SWAPPED, schema_id="f" * 16, refused="view v: not certain")
    versions = {**VERSIONS, unsure.schema_id: unsure}
    good = [written(WAS, 1, id=1, a="a1", b="b1"), written(RENAMED, 3, id=1, x="a3", b="b3")]
    assert len(run(spark, good, steps, versions)) >= 1
    bad = [*good, written(unsure, 2, id=1, b="a2", a="b2")]
    with pytest.raises(Exception, match="view v: not certain") as raised:
        run(spark, bad, steps, versions)
    fault = translate(raised.value, "v")
    assert isinstance(fault, ViewError)
    assert not isinstance(fault, POISON)
    assert "rebuild" in fault.hint
