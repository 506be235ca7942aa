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
            if isinstance(field.dataType, ODD) and field.name in ("at", "k")
            else F.col(field.name)
            for field in rows.schema
        ]
        super().apply(rows.select(*texts), batch)


TIMES = {
    TIMESTAMPTZ: (
        "-0043-03-15T12:00:00.000001Z",
        "+12000-01-01T00:00:00Z",
        "+32767-12-31T23:59:59.999999Z",  # the last one that is held
    ),
    PgType("timestamp"): ("-0043-03-15T12:00:00",),
    DATE: ("-0043-03-15", "+12000-01-01", "+32767-12-31"),
}


@pytest.mark.parametrize("kind", TIMES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("is_key", [False, True], ids=["value", "key"])
def test_times_of_other_years_are_joined_grouped_and_changed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: PgType,
    is_key: bool,
) -> None:
    key = ("at",) if is_key else ("id",)
    events = version("events", key=key, id=INT4, at=kind, g=INT4, v=INT4, note=TEXT)
    sql = "select e.id, e.at, e.v, e.note, g.name from events e join groups g on g.id = e.g"
    view = MirroredView(spark, tmp_path, monkeypatch, sql, key, (events, GROUPS))
    view.sink = TextSink()
    view.restart()
    rows = list(enumerate(TIMES[kind], 1))
    view.put(GROUPS, 1, id=1, name="one")
    for id_, value in rows:
        view.put(events, 2, id=id_, at=value, g=1, v=1, note="n")
    view.apply()
    before = by_id(view)
    assert before.keys() == {id_ for id_, _ in rows}
    for id_, value in rows:
        view.put(events, 3, "u", id=id_, at=value, g=1, v=2, note=PLACEHOLDER)
    view.apply()
    changed = by_id(view)
    assert changed == {id_: {**row, "v": 2} for id_, row in before.items()}
    assert {(row["note"], row["name"]) for row in changed.values()} == {("n", "one")}
    view.put(GROUPS, 4, "u", id=1, name="uno")
    view.apply()
    assert by_id(view) == {id_: {**row, "name": "uno"} for id_, row in changed.items()}
    for id_, value in rows:
        view.delete(events, 5, id=id_, at=value)
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
