"""Views over mirrors of values that Python has no name for: other years, NaN as a key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DoubleType, TimestampNTZType, TimestampType

from cdc.events.codes import PLACEHOLDER
from tests.support.views.mirrored_view import MirroredView, version
from tests.support.views.recording_sink import RecordingSink
from views.types import DATE, INT4, TEXT, PgType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jobs.sinks.contract import Batch

TIMESTAMPTZ, FLOAT8 = PgType("timestamptz"), PgType("float8")
ODD = (DateType, DoubleType, TimestampNTZType, TimestampType)
GROUPS = version("groups", id=INT4, name=TEXT)


class TextSink(RecordingSink):
    """What Python cannot hold is text."""

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        texts = [
            F.col(field.name).cast("string").alias(field.name)
            if isinstance(field.dataType, ODD) and field.name in (*KINDS, "k")
            else F.col(field.name)
            for field in rows.schema
        ]
        super().apply(rows.select(*texts), batch)


KINDS = {"at": TIMESTAMPTZ, "noted": PgType("timestamp"), "day": DATE}
TIMES = (
    ("-0043-03-15T12:00:00.000001Z", "-0043-03-15T12:00:00", "-0043-03-15"),
    ("+12000-01-01T00:00:00Z", "+12000-01-01T00:00:00", "+12000-01-01"),
    # The last ones that are held.
    ("+32767-12-31T23:59:59.999999Z", "+32767-12-31T23:59:59.999999", "+32767-12-31"),
)
"""Of each kind one, row by row."""


@pytest.mark.parametrize(
    "key",
    [pytest.param(("id",), marks=pytest.mark.exhaustive), tuple(KINDS)],
    ids=["value", "key"],
)
def test_times_of_other_years_are_joined_grouped_and_changed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    events = version("events", key=key, id=INT4, **KINDS, g=INT4, v=INT4, note=TEXT)
    columns = ", ".join(f"e.{name}" for name in ("id", *KINDS, "v", "note"))
    sql = f"select {columns}, g.name from events e join groups g on g.id = e.g"
    view = MirroredView(spark, tmp_path, monkeypatch, sql, key, (events, GROUPS))
    view.sink = TextSink()
    view.restart()
    rows: list[dict[str, Any]] = [
        {"id": id_, **dict(zip(KINDS, of, strict=True))} for id_, of in enumerate(TIMES, 1)
    ]
    view.put(GROUPS, 1, id=1, name="one")
    for row in rows:
        view.put(events, 2, **row, g=1, v=1, note="n")
    view.apply()
    before = by_id(view)
    assert before.keys() == {row["id"] for row in rows}
    for row in rows:
        view.put(events, 3, "u", **row, g=1, v=2, note=PLACEHOLDER)
    view.apply()
    changed = by_id(view)
    assert changed == {id_: {**row, "v": 2} for id_, row in before.items()}
    assert {(row["note"], row["name"]) for row in changed.values()} == {("n", "one")}
    view.put(GROUPS, 4, "u", id=1, name="uno")
    view.apply()
    assert by_id(view) == {id_: {**row, "name": "uno"} for id_, row in changed.items()}
    for row in rows:
        view.delete(events, 5, **row)
    view.apply()
    assert not view.sink.values()


def by_id(view: MirroredView) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in view.sink.values().values()}


def test_a_large_value_is_kept_whatever_number_the_key_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = version("numbered", key=("k",), k=FLOAT8, g=INT4, v=INT4, note=TEXT)
    sql = "select n.k, n.v, n.note, g.name from numbered n left join groups g on g.id = n.g"
    view = MirroredView(spark, tmp_path, monkeypatch, sql, ("k",), (table, GROUPS))
    view.sink = TextSink()
    view.restart()
    keys = ("NaN", "Infinity", 0.5)
    view.put(GROUPS, 1, id=1, name="one")
    for key in keys:
        view.put(table, 2, k=key, g=1, v=1, note=f"large {key}")
    view.apply()
    for key in keys:
        view.put(table, 3, "u", k=key, g=1, v=2, note=PLACEHOLDER)
    view.apply()
    assert not view.waiting()
    assert shown(view) == {str(key): (2, f"large {key}", "one") for key in keys}
    for key in keys:
        view.put(table, 4, "u", k=key, g=1, v=3, note="other")
    view.apply()
    assert shown(view) == {str(key): (3, "other", "one") for key in keys}


def shown(view: MirroredView) -> dict[str, tuple[Any, ...]]:
    return view.shown("v", "note", "name")
