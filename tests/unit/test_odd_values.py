"""Views over mirrors of values that Python has no name for: other years, NaN as a key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DoubleType, TimestampNTZType, TimestampType

from jobs.direct.schema import PLACEHOLDER
from tests.mirrored import MirroredView, version
from tests.recording import RecordingSink
from views.types import DATE, INT4, TEXT, PgType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jobs.sinks import Batch

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


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TIMESTAMPTZ, "-0043-03-15T12:00:00.000001Z"),
        (TIMESTAMPTZ, "+12000-01-01T00:00:00Z"),
        (PgType("timestamp"), "-0043-03-15T12:00:00"),
        (DATE, "-0043-03-15"),
        (DATE, "+12000-01-01"),
        (TIMESTAMPTZ, "+32767-12-31T23:59:59.999999Z"),  # the last ones that are held
        (DATE, "+32767-12-31"),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_key", [False, True], ids=["value", "key"])
def test_times_of_other_years_are_joined_grouped_and_changed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: PgType,
    value: str,
    is_key: bool,
) -> None:
    events = version(
        "events", key=("at",) if is_key else ("id",), id=INT4, at=kind, g=INT4, v=INT4, note=TEXT
    )
    sql = "select e.id, e.at, e.v, e.note, g.name from events e join groups g on g.id = e.g"
    key = ("at",) if is_key else ("id",)
    view = MirroredView(spark, tmp_path, monkeypatch, sql, key, (events, GROUPS))
    view.sink = TextSink()
    view.restart()
    view.put(GROUPS, 1, id=1, name="one")
    view.put(events, 2, id=1, at=value, g=1, v=1, note="n")
    view.apply()
    (before,) = view.sink.values().values()
    view.put(events, 3, "u", id=1, at=value, g=1, v=2, note=PLACEHOLDER)
    view.apply()
    (row,) = view.sink.values().values()
    assert row == {**before, "v": 2}
    assert (row["note"], row["name"]) == ("n", "one")
    view.put(GROUPS, 4, "u", id=1, name="uno")
    view.apply()
    (row,) = view.sink.values().values()
    assert row["name"] == "uno"
    view.delete(events, 5, id=1, at=value)
    view.apply()
    assert not view.sink.values()


@pytest.mark.parametrize("key", ["NaN", "Infinity", 0.5])
def test_a_large_value_is_kept_whatever_number_the_key_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: object
) -> None:
    table = version("numbered", key=("k",), k=FLOAT8, g=INT4, v=INT4, note=TEXT)
    sql = "select n.k, n.v, n.note, g.name from numbered n left join groups g on g.id = n.g"
    view = MirroredView(spark, tmp_path, monkeypatch, sql, ("k",), (table, GROUPS))
    view.sink = TextSink()
    view.restart()
    view.put(GROUPS, 1, id=1, name="one")
    view.put(table, 2, k=key, g=1, v=1, note="large")
    view.apply()
    view.put(table, 3, "u", k=key, g=1, v=2, note=PLACEHOLDER)
    view.apply()
    assert not view.waiting()
    (row,) = view.sink.values().values()
    assert (row["v"], row["note"], row["name"]) == (2, "large", "one")
    view.put(table, 4, "u", k=key, g=1, v=3, note="other")
    view.apply()
    (row,) = view.sink.values().values()
    assert (row["v"], row["note"]) == (3, "other")
