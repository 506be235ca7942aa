"""What is kept beside mirrors: how far they got, touched keys, the tables as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.delta_engine.late_snapshot_rows import without_returned
from jobs.delta_engine.mirrors.attempts import Attempts, read_attempts, write_attempts
from jobs.delta_engine.mirrors.table_record import check_kept, remember, remembered
from jobs.delta_engine.touched_keys import TouchedKeys, together
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from tests.unit.jobs.delta_engine.test_mirrors import change, mirror_in, rows
from views.column_changes import column_changes
from views.parse.definition import parse_view
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion
from views.types import DATE, INT4, INT8, TEXT, PgType, numeric


def test_where_settled_attempts_end_never_goes_back(tmp_path: Path) -> None:
    attempts = Attempts().begun(5, {}).done({"a": {0: 7, 1: 3}, "b": {0: 1}})
    again = attempts.begun(5, {}).done({"a": {0: 4, 1: 9}})
    assert again.offsets == {"a": {0: 7, 1: 9}, "b": {0: 1}}
    kept = again.forgetting({"t": Position(8, 1)}).forgetting({"t": Position(6, 1)})
    assert kept.forgotten == {"t": Position(8, 1)}
    write_attempts(tmp_path, kept)
    assert read_attempts(tmp_path) == kept


def keys(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32())})


def test_touched_keys_of_all_unsettled_attempts_are_remembered(tmp_path: Path) -> None:
    touched = TouchedKeys(tmp_path)
    first, second = Attempts(last=4, settled=4).begun(1, {}), Attempts(last=5, settled=4)
    touched.keep(keys(1, 2), first.last)
    touched.keep(keys(2, 3), second.begun(1, {}).last)
    killed = Attempts(last=6, settled=4)
    found = touched.with_unsettled(keys(9), killed)
    assert sorted(found.column("id").to_pylist()) == [1, 2, 3, 9]
    assert touched.with_unsettled(keys(9), Attempts(last=6, settled=6)) == keys(9)
    touched.clear()
    assert touched.with_unsettled(keys(9), killed) == keys(9)


def test_keys_are_put_together_when_their_column_became_wider() -> None:
    wide = pa.table({"id": pa.array([1, 2**40], pa.int64())})
    nothing = pa.table({"id": pa.nulls(0)})
    assert sorted(together([keys(1), wide, nothing]).column("id").to_pylist()) == [1, 2**40]


def test_the_newest_deletion_is_told(tmp_path: Path) -> None:
    mirror = mirror_in(tmp_path / "public.t")
    assert mirror.newest_deletion() is None
    gone = [change(5, 1, op="d"), change(7, 2, op="d") | {ORDINAL: 3}, change(9, 3)]
    mirror.append(rows(*gone), 1)
    assert mirror.newest_deletion() == Position(7, 3)


def test_a_snapshots_row_from_before_a_forgotten_deletion_is_asked_for(tmp_path: Path) -> None:
    mirror = mirror_in(tmp_path / "public.t")
    mirror.append(rows(change(9, 4)), 1)
    asked: list[Any] = []

    def deleted(wanted: pa.Table) -> pa.Table:
        asked.append(wanted.column("id").to_pylist())
        at = {"id": [1, 2], COMMIT_LSN: [7, 3], ORDINAL: [1, 1]}
        return pa.table({name: pa.array(values) for name, values in at.items()})

    read = [change(5, i, op="r") | {ORDINAL: 0} for i in (1, 2, 3, 4)]
    batch = rows(*read, change(6, 5))
    left = without_returned(batch, mirror, Position(8, 1), deleted)
    assert left.column("id").to_pylist() == [2, 3, 4, 5]
    assert asked == [[1, 2, 3]]
    for forgotten in (None, Position(5, 0)):
        assert without_returned(batch, mirror, forgotten, deleted) == batch
    assert len(asked) == 1


def table(key: tuple[str, ...] = ("id",), **columns: PgType) -> TableVersion:
    made = tuple(TableColumn(name, kind, name not in key) for name, kind in columns.items())
    return TableVersion(repr(made) + repr(key), "public", "t", made, key)


def view_of(version: TableVersion) -> MaintainedView:
    sql = "select x.id, x.n, y.m from t x left join t y on y.id = x.n"
    return resolve_maintained(parse_view("v", "s", ["id"], sql), {version.name: version})


WAS = table(id=INT4, n=INT4, m=numeric(8, 2), gone=TEXT)


@pytest.mark.parametrize(
    "now",
    [
        WAS,
        table(id=INT4, n=INT4, m=numeric(8, 2), added=DATE),
        table(id=INT8, n=INT8, m=numeric(12, 4), gone=DATE),
    ],
    ids=["the same", "others", "wider"],
)
def test_what_a_mirror_holds_stays_true(now: TableVersion) -> None:
    check_kept(view_of(now), {"public.t": WAS})
    check_kept(view_of(now), {})


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            table(("id", "n"), id=INT4, n=INT4, m=numeric(8, 2)),
            r"had the key \(id\), has \(id, n\)",
        ),
        (table(id=INT4, n=INT4, m=numeric(8, 1)), r"was numeric\(8,2\) and is numeric\(8,1\) now"),
        (table(id=INT4, n=INT4, m=DATE), "and is date now"),
    ],
    ids=["key", "narrower", "another"],
)
def test_what_a_mirror_holds_is_true_no_longer(now: TableVersion, reason: str) -> None:
    sql = "select x.id, x.n, y.m from t x left join t y on y.id = x.id and y.n = x.n"
    view = resolve_maintained(parse_view("v", "s", now.key, sql), {now.name: now})
    with pytest.raises(ViewError, match=reason) as caught:
        check_kept(view, {"public.t": WAS})
    assert column_changes(WAS.types, now.types) in str(caught.value)


def test_the_tables_are_remembered_by_their_versions(tmp_path: Path) -> None:
    remember(tmp_path, view_of(WAS))
    now = table(id=INT4, n=INT8, m=INT4)
    versions = {"public.t": {one.schema_id: one for one in (WAS, now)}}
    assert remembered(tmp_path, versions) == {"public.t": WAS}
    assert remembered(tmp_path, {"public.t": {now.schema_id: now}}) == {}
