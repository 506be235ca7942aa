"""What the measurements of views count, without servers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.capture.shapes import CUSTOMERS, USUAL, orders_of
from benchmarks.environment import clear
from benchmarks.peers.spark_merge import COLUMNS
from benchmarks.peers.spark_merge_process import Spans
from benchmarks.report.metrics import APPLY, GROWTH_ROWS, MEASUREMENTS, VISIBLE
from benchmarks.report.page import render
from benchmarks.views.bootstrap import bootstrap_figures
from benchmarks.views.catchup import Run, catch_up_figures
from benchmarks.views.contents import Contents, in_delta
from benchmarks.views.probes import InDelta, Watcher, watching
from benchmarks.views.process import applied
from benchmarks.views.visible import RATE_PER_S, SECONDS, WARM_UP_S, row_of
from benchmarks.views.wait_figures import WAIT
from benchmarks.views.waits import figures
from cdc.errors import FatalError

_APPLIED = (
    '{"view": "v", "batch": 3, "records": 5, "keys": 4, "rows": 4, "seconds": 0.25, '
    '"offsets": {"s.public.t": {"0": 3, "1": 2}}, "fresh_ms": [], "event": "batch_applied", '
    '"level": "info", "timestamp": "2026-11-22T08:00:01.500000Z"}\n'
)


def test_every_change_of_a_turn_goes_to_a_row_of_its_own() -> None:
    for rows, count in ((100_000, RATE_PER_S * (SECONDS + WARM_UP_S)), (10_000, 1_000)):
        written = {row_of(3_000_000 + n, rows) for n in range(1, count + 1)}
        assert len(written) == count
        assert min(written) >= 1
        assert max(written) <= rows


def test_orders_belong_to_all_customers() -> None:
    shape = orders_of(10)
    assert [column.name for column in shape.columns] == [c.name for c in USUAL.columns]
    assert shape.columns[1].value == "1 + mod(i * 7919, 10)::int"
    assert {1 + i * 7919 % 10 for i in range(1, 101)} == set(range(1, 11))
    assert CUSTOMERS.columns[0].type == "integer"


def test_a_watcher_notes_when_each_mark_came_first() -> None:
    answers = [[], [12, 11], [12, 99], [13]]
    asked: list[Sequence[int]] = []

    def look(marks: Sequence[int]) -> list[int]:
        asked.append(list(marks))
        return answers[len(asked) - 1]

    with watching(look, range(11, 14), 0) as watcher:
        _ended(watcher)
        watcher.check()
    assert asked == [[11, 12, 13], [11, 12, 13], [13], [13]]
    assert set(watcher.seen) == {11, 12, 13}
    assert watcher.seen[12] == watcher.seen[11] < watcher.seen[13]
    assert len(watcher.looks_ns) == 4
    took_ns = watcher.looks_ns[3] - watcher.looks_ns[0]
    assert watcher.look_ms == pytest.approx(took_ns / 3e6)


def test_a_store_that_cannot_be_read_ends_the_measurement() -> None:
    def look(_marks: Sequence[int]) -> list[int]:
        raise ConnectionError("gone")

    with watching(look, range(1, 2), 0) as watcher:
        _ended(watcher)
        with pytest.raises(FatalError, match="a store cannot be read"):
            watcher.check()


def test_new_versions_of_a_delta_table_show_what_they_add(tmp_path: Path) -> None:
    table = tmp_path / "t"
    _write(table, {1: "0.10", 2: "0.20"})
    look = InDelta(table, "total")
    assert look([1_000_001]) == []
    _write(table, {3: "1000001.00", 4: "7.00"})
    _write(table, {5: "1000002.00"})
    assert look([1_000_001, 1_000_002]) == [1_000_001, 1_000_002]
    assert look([1_000_003]) == []
    DeltaTable(table).optimize.compact()  # the same rows again: nothing has changed
    assert look([1_000_001]) == []
    _write(table, {6: "1000003.00"})
    assert look([1_000_001, 1_000_003]) == [1_000_003]
    assert in_delta(table) == Contents(6, Decimal("3000013.30"))


def test_a_log_tells_of_the_batches_that_it_has_whole(tmp_path: Path) -> None:
    log = tmp_path / "apply.log"
    log.write_text(f"WARNING: no JSON batch_applied\n{_APPLIED}{_APPLIED[:40]}", encoding="utf-8")
    (batch,) = applied(log)
    assert (batch.records, batch.rows, batch.seconds) == (5, 4, 0.25)
    assert batch.offsets == {"s.public.t": {"0": 3, "1": 2}}
    assert batch.at % 60 == 1.5


def test_bootstrap_gives_medians_beside_the_bulk_of_the_same_run() -> None:
    seconds = {"delta": [2.0, 9.0, 1.0], "redis": [4.0], "opensearch": [10.0], "joined": [3.0, 5.0]}
    assert bootstrap_figures(1_000, seconds, [100.0, 400.0, 200.0]) == {
        "bootstrap_delta_rows_per_s": 500,
        "bootstrap_redis_rows_per_s": 250,
        "bootstrap_opensearch_rows_per_s": 100,
        "bootstrap_opensearch_vs_bulk": 0.5,
        "bootstrap_join_s": 4,
    }
    assert {one.name for one in MEASUREMENTS["bootstrap"]} == bootstrap_figures(
        1, seconds, [1.0]
    ).keys()


def test_catch_up_gives_medians_and_what_they_are_of_each_other() -> None:
    runs = {
        name: [Run(Spans(stream + 10, stream), 200) for stream in (seconds, 99.0, 1.0)]
        for name, seconds in (("delta", 10.0), ("redis", 5.0), ("opensearch", 20.0), ("plain", 40))
    }
    figures = catch_up_figures(1_000, runs, [100.0, 80.0, 90.0])
    assert figures.keys() == {figure.name for figure in APPLY}
    assert figures["apply_delta_changes_per_s"] == 100
    assert figures["apply_delta_with_start_changes_per_s"] == 50
    assert figures["apply_opensearch_vs_bulk"] == pytest.approx(50 / 90)
    assert figures["apply_opensearch_documents_per_s"] == 10
    assert figures["apply_vs_plain_merge"] == 4


def test_a_plain_merge_has_the_columns_of_a_usual_row() -> None:
    assert [name for name, _ in COLUMNS] == [column.name for column in USUAL.columns]


def test_the_page_shows_how_a_batch_grows() -> None:
    measured = {
        f"growth_{rows}_batch_ms": float(ms)
        for rows, ms in zip(GROWTH_ROWS, (100, 200, 400), strict=True)
    }
    assert f"| 1,000,000 | 400 | {'█' * 40} |" in render(measured)
    assert f"| 10,000 | 100 | {'█' * 10} |" in render(measured)
    del measured["growth_10000_batch_ms"]
    assert "█" not in render(measured)


def test_visible_is_promised_for_every_store_and_a_join() -> None:
    promised = {figure.name: figure.target for figure in VISIBLE}
    assert promised["visible_redis_p50_ms"] == (250, False)
    assert promised["visible_opensearch_p99_ms"] == (600, False)
    assert promised["visible_delta_p99_ms"] == (3_000, False)
    assert promised["visible_join_p99_ms"] == (4_000, False)
    assert promised["latency_vs_plain_merge"] == (0.5, False)


def test_a_wait_over_http_is_judged_by_what_it_adds_at_the_tail() -> None:
    client, over_http = [float(ms) for ms in range(100, 0, -1)], [50.0] * 98 + [110.0, 120.0]
    found = figures(client, over_http)
    assert found == {
        "wait_p50_ms": 50.0,
        "wait_p99_ms": 99.0,
        "wait_http_p50_ms": 50.0,
        "wait_http_p99_ms": 110.0,
        "wait_http_over_p99_ms": 11.0,
    }
    assert found.keys() == {figure.name for figure in WAIT}
    assert {figure.target for figure in WAIT if figure.target} == {(20, False)}


def _ended(watcher: Watcher) -> None:
    watcher.join(30)
    assert not watcher.is_alive(), f"looked for 30 s, seen {watcher.seen}"


def _write(table: Path, rows: dict[int, str]) -> None:
    columns = {
        "id": pa.array(list(rows), pa.int64()),
        "total": pa.array([Decimal(total) for total in rows.values()], pa.decimal128(12, 2)),
    }
    write_deltalake(table, pa.table(columns), mode="append")


def test_what_a_run_left_that_was_cut_off_is_not_taken_for_the_next_one_s(tmp_path: Path) -> None:
    for name in ("logs", "views", "views-delta-0", "idle-50", "lake", "chaos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "left").touch()
    clear(tmp_path)
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*")) == [
        "chaos",
        "chaos/left",
        "logs",
    ]
