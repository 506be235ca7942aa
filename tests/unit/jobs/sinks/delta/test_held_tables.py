"""A table that a thread has at hand is the one that stands there, whoever writes it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from jobs.sinks.delta.delta_reader import table_at
from jobs.sinks.delta.held_tables import HeldTables

APP = "headwater:v:1"


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "n": pa.array(numbers, pa.int64())})


def state(table: DeltaTable) -> dict[str, Any]:
    """All that a writer asks of a table."""
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    metadata = table.metadata()
    return {
        "version": table.version(),
        "files": sorted(map(repr, files)),
        "columns": table.schema().to_json(),
        "properties": dict(metadata.configuration),
        "id": metadata.id,
        "features": table.protocol(),
        "number": table.transaction_version(APP),
        "rows": sorted(table.to_pyarrow_table().column("id").to_pylist()),
    }


def merged(table: DeltaTable, number: int) -> None:
    numbered = CommitProperties(app_transactions=[Transaction(APP, number)])
    (
        table.merge(
            rows(number % 7, number), "t.id = s.id", "s", "t", commit_properties=numbered
        )
        .when_matched_update({"n": "s.n"})
        .when_not_matched_insert({"id": "s.id", "n": "s.n"})
        .execute()
    )  # fmt: skip


def another_column(table: DeltaTable, number: int) -> None:
    write_deltalake(
        table,
        rows(number).append_column(f"c{number}", pa.array([1], pa.int64())),
        mode="append",
        schema_mode="merge",
    )


WRITES: dict[str, Callable[[DeltaTable, int], Any]] = {
    "merged": merged,
    "appended": lambda table, number: write_deltalake(
        table, rows(number), mode="append", schema_mode="merge"
    ),
    "deleted": lambda table, number: table.delete(f"id = {number - 3}"),
    "joined": lambda table, _number: table.optimize.compact(),
    "checkpoint": lambda table, _number: table.create_checkpoint(),
    "property": lambda table, number: table.alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": f"interval {number} days"}
    ),
    "column": another_column,
}


@pytest.mark.parametrize("seed", range(3))
def test_whoever_writes_what_is_at_hand_is_what_a_new_look_finds(seed: int, tmp_path: Path) -> None:
    choice, held, path = random.Random(seed), HeldTables(), tmp_path / "v"
    write_deltalake(path, rows(0))
    for number in range(1, 40):
        by_us = held.newest(str(path), path)
        write = choice.choice(list(WRITES))
        stranger = choice.random() < 0.3
        WRITES[write](DeltaTable(path) if stranger else by_us, number)
        if choice.random() < 0.1:
            shutil.rmtree(path)
            for one in range(choice.randint(1, 2 * number)):
                write_deltalake(path, rows(-one), mode="append")
        found = held.newest(str(path), path)
        assert state(found) == state(DeltaTable(path)), (seed, number, write, stranger)


def test_it_is_opened_once_while_nobody_else_writes_it(tmp_path: Path) -> None:
    held, path = HeldTables(), tmp_path / "v"
    write_deltalake(path, rows(0))
    first = held.newest(str(path), path)
    merged(first, 1)
    assert held.newest(str(path), path) is first
    write_deltalake(path, rows(2), mode="append")
    second = held.newest(str(path), path)
    assert second is not first
    assert (first.version(), second.version()) == (1, 2)  # who has read it writes what it has read


def test_a_log_that_was_cleaned_is_read_again(tmp_path: Path) -> None:
    held, path = HeldTables(), tmp_path / "v"
    write_deltalake(path, rows(0))
    first = held.newest(str(path), path)
    merged(first, 1)
    first.create_checkpoint()
    for version in range(2):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    assert state(held.newest(str(path), path)) == state(DeltaTable(path))


def test_a_thread_keeps_those_it_used_last(tmp_path: Path) -> None:
    held, places = HeldTables(), [tmp_path / f"v{number}" for number in range(40)]
    for place in places:
        write_deltalake(place, rows(0))
    found = [held.newest(str(place), place) for place in places]
    assert held.newest(str(places[-1]), places[-1]) is found[-1]
    assert held.newest(str(places[0]), places[0]) is not found[0]


def test_each_small_write_of_a_view_finds_it_at_hand(tmp_path: Path) -> None:
    path = str(tmp_path / "v")
    write_deltalake(path, rows(0))
    merged(table_at(path), 1)
    assert table_at(path) is table_at(path)
    assert table_at(path).version() == 1
