"""The measurements on a few rows: they run, count every event, and leave no slot behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from benchmarks.capture.memory import measure_large_transaction
from benchmarks.capture.race import run_race
from benchmarks.capture.restart import measure_restart
from benchmarks.capture.shapes import WIDE, Race
from benchmarks.capture.snapshot import snapshot_turns
from benchmarks.environment import Setting
from benchmarks.peers.debezium import warm_worker
from stack.guardian import Guardian


@pytest.fixture
def setting(database: str, kafka: str, tmp_path: Path, guardian: Guardian) -> Iterator[Setting]:
    """The session's servers, and 1,000 rows where a full measurement has 1,000,000."""
    (tmp_path / "logs").mkdir()
    yield Setting(tmp_path, database, kafka, 1_000, lambda _what, _part: None, guardian)
    with psycopg.connect(database) as connection:
        left = connection.execute(
            "select slot_name from pg_replication_slots where database = current_database()"
        )
        assert left.fetchall() == []


@pytest.mark.exhaustive  # of no promise: `make bench` runs it on all rows
def test_a_race_over_the_same_wal_and_a_snapshot_measure_all(setting: Setting) -> None:
    """On one worker of Debezium, whose start takes longest."""
    race = Race(WIDE, 1, 0.2)
    with setting.connect() as conn, warm_worker(setting, conn) as worker:
        runs = run_race(setting, conn, worker, race, 1)
        (turn,) = snapshot_turns(setting, conn, worker, WIDE, 1_000, 1)
    assert runs.keys() == {"capture", "debezium", "recvlogical"}
    for (run,) in runs.values():
        assert run.changes_per_s > 0
    assert runs["debezium"][0].rss_mb > runs["capture"][0].rss_mb > 20
    assert min(turn) > 0
    assert 20 < turn.rss_mb < 250


def test_memory_is_the_peak_over_one_transaction(setting: Setting) -> None:
    assert 20 < measure_large_transaction(setting) < 250


def test_a_restart_is_timed_and_no_row_is_lost_or_repeated(setting: Setting) -> None:
    assert 0 < measure_restart(setting)["restart_s"] < 60
