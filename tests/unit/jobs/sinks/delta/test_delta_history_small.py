"""Tables of history, written without Spark: what they hold is what Spark would have written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cdc.errors import RetryableError
from jobs.sinks.contract import Batch
from tests.support.events.history_events import Event, expected
from tests.support.views.history_tables import Written, changes_of

HISTORIES = ("log", "scd2")
KEYS, STEPS = 5, 30


@pytest.fixture(scope="module", params=HISTORIES)
def empty(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Written:
    """A table that was made by Spark and has no rows."""
    return Written(spark, tmp_path_factory.mktemp("empty"), request.param)


@pytest.fixture
def one(empty: Written, tmp_path: Path) -> Written:
    """A table of its own for a test."""
    return empty.copied(tmp_path)


def partitions(random: Random) -> list[list[Event]]:
    """What happens to rows, in a topic of two partitions: in each in order."""
    found: list[list[Event]] = [[], []]
    known: dict[int, bool] = {}  # whether the text was told since the row is there
    for lsn in range(1, STEPS):
        if random.random() < 0.06:
            known.clear()
            for partition in found:
                partition.append(Event(lsn, "t", None))
            continue
        for ordinal, id_ in enumerate(random.sample(range(KEYS), random.randint(1, 3)), 1):
            name = random.choice([None, f"n{lsn}", f"n{lsn}"])
            text: str | None = f"t{lsn}"
            if name is not None and id_ in known and random.random() < 0.5:
                text = None
            op = random.choice("ud") if name is None else "u" if id_ in known else "c"
            found[id_ % 2].append(Event(lsn, op, id_, name, text, ordinal))
            known.pop(id_, None) if name is None else known.setdefault(id_, True)
    return found


def batches(of: list[list[Event]], random: Random, begin: list[int]) -> Iterator[list[Event]]:
    """Of partitions of which each is read as far as it is; ``begin`` moves to the end."""
    while any(at < len(events) for at, events in zip(begin, of, strict=True)):
        batch = []
        for number, events in enumerate(of):
            end = min(len(events), begin[number] + random.randint(0, 8))
            batch += events[begin[number] : end]
            begin[number] = end
        random.shuffle(batch)
        yield batch


def without_echoes(history: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A log may tell once more that a row is gone, where what had removed it came later."""
    if history != "log":
        return rows
    return [
        row
        for before, row in zip([None, *rows], rows, strict=False)
        if row[4] is not None or (before and before[0] == row[0] and before[4] is not None)
    ]


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(s, marks=pytest.mark.exhaustive) for s in range(3, 12))]
)
def test_whatever_comes_in_whatever_batches_each_change_is_there_once(
    seed: int, one: Written
) -> None:
    random = Random(seed)
    of = partitions(random)
    events = [event for partition in of for event in partition]
    wanted = expected(one.history, events)
    begin = [0, 0]
    for batch in batches(of, random, begin):
        assert one.apply(*batch) in {"delta-rs", "Headwater", ""}
        if random.random() < 0.15:
            break
    one.generation, one.number, one.sink = "older checkpoint", 0, one.opened()
    begin = [random.randint(0, end) for end in begin]
    for batch in batches(of, random, begin):
        one.apply(*batch)
    assert without_echoes(one.history, one.rows()) == wanted
    before = one.table.version()
    again = [random.randint(0, len(events) // 2) for events in of]
    for batch in batches(of, random, again):
        assert one.apply(*batch) == "", "a replay wrote something"
    assert one.table.version() == before


@pytest.mark.parametrize(
    "empty", [pytest.param("log", marks=pytest.mark.exhaustive), "scd2"], indirect=True
)
def test_spark_reads_it_and_goes_on_with_it(one: Written) -> None:
    """Rows that were marked here, files that OPTIMIZE has joined, and numbers of batches. Of a log
    Spark and this process take turns in ``test_delta_history``."""
    first = [Event(1, "c", id_, f"n{id_}", "text", id_) for id_ in range(1, 9)]
    second = [Event(2, "u", 1, "m1", None), Event(2, "d", 2, ordinal=2)]
    third = [Event(3, "u", 3, "m3", None), Event(3, "u", 1, "m1", None, 2)]
    fourth = [Event(4, "u", 1, "l1", None), Event(4, "u", 3, "l3", "other", 2)]
    writers = [one.apply(*first), one.apply(*second)]
    one.by_spark(*third)
    one.sink._of.table(one.spark).optimize().executeCompaction()
    writers.append(one.apply(*fourth))
    ends = "Headwater" if one.history == "scd2" else "delta-rs"
    assert writers == ["delta-rs", ends, ends]
    wanted = expected(one.history, [*first, *second, *third, *fourth])
    assert one.rows() == wanted
    table = one.spark.read.format("delta").load(str(one.home / "v"))
    assert table.count() == len(wanted)
    assert {row.key[0]: row.values["name"] for row in one.sink.scan()} == {
        1: "l1", 3: "l3", **{id_: f"n{id_}" for id_ in range(4, 9)},
    }  # fmt: skip
    one.by_spark(Event(9, "u", 5, "last", None))
    one.number -= 1
    assert one.apply(Event(9, "u", 6, "not again", None)) == "", "the number is taken"


def test_the_log_is_kept_short_and_forgets_nothing(one: Written) -> None:
    """Versions of the table that are checkpoints alone: with marks, statistics and numbers."""
    events = [Event(1, "c", id_, f"n{id_}", "text", id_) for id_ in range(1, 6)]
    one.apply(*events)
    for lsn in range(2, 24):
        changed = [Event(lsn, "u", lsn % 5 + 1, f"m{lsn}", None)]
        one.apply(*changed)
        events += changed
    log = one.home / "v" / "_delta_log"
    if one.history == "log":
        one.table.create_checkpoint()
    newest = json.loads((log / "_last_checkpoint").read_text())["version"]
    for file in log.glob("*.json"):
        if int(file.stem) < newest:
            file.unlink()
    assert newest >= 20
    assert one.apply(Event(30, "u", 1, "m", None), Event(30, "d", 2, ordinal=2)) != ""
    events += [Event(30, "u", 1, "m", None), Event(30, "d", 2, ordinal=2)]
    assert one.rows() == expected(one.history, events)
    logs: Any = one.spark.sparkContext
    logs._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    table = one.spark.read.format("delta").load(str(one.home / "v"))
    assert table.count() == len(one.rows())


def test_another_writer_is_noticed_and_the_batch_tried_again(
    one: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.apply(Event(1, "c", 1, "a"))
    stale = one.table
    other = Written(one.spark, one.home, one.history)
    other.generation = "other"
    other.apply(Event(2, "u", 1, "b"))
    tables = iter([stale])
    monkeypatch.setattr(
        "jobs.sinks.delta.history.small_batch.table_at",
        lambda path: next(tables, None) or DeltaTable(path),
    )
    one.apply(Event(2, "u", 1, "b"), Event(3, "u", 1, "c"))
    assert next(tables, None) is None
    events = [Event(1, "c", 1, "a"), Event(2, "u", 1, "b"), Event(3, "u", 1, "c")]
    assert one.rows() == expected(one.history, events)
    monkeypatch.setattr("jobs.sinks.delta.history.small_batch.table_at", lambda _path: stale)
    with pytest.raises(RetryableError, match="another writer changed"):
        one.sink._here.write(changes_of([Event(4, "u", 1, "d")]), None)


KILLS = (
    "jobs.sinks.delta.history.version_ends.staged",
    "jobs.sinks.delta.history.version_ends.commit",
    "jobs.sinks.delta.log.os.link",
    "jobs.sinks.delta.history.version_ends.keep_short",
)
"""Before the file of marks, that of rows, the commit, and what follows it."""


def test_killed_between_any_two_steps_the_batch_is_there_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that no commit has are nobody's; a commit counts, whoever did not learn of it."""
    one = Written(spark, tmp_path, "scd2")  # of a log delta-rs makes each commit
    events = [Event(1, "c", 1, "a"), Event(1, "c", 2, "b", ordinal=2)]
    one.apply(*events)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    for lsn, where in enumerate(KILLS, 2):
        then = [
            Event(lsn, "u", 1, f"A{lsn}", None),
            Event(lsn, "d", lsn, ordinal=2),
            Event(lsn, "c", lsn + 1, "c", ordinal=3),
        ]
        before = one.table.version()
        with monkeypatch.context() as patched:
            patched.setattr(where, killed)
            with pytest.raises(KeyboardInterrupt):
                one.apply(*then)
        done = where == KILLS[-1]
        assert one.table.version() == before + done
        one.number, one.sink = one.number - 1, one.opened()
        assert one.apply(*then) == ("" if done else "Headwater")
        events += then
        assert one.rows() == expected(one.history, events)
    assert not list((one.home / "v" / "_delta_log").glob("*.tmp"))
    one.sink._of.table(spark).vacuum()
    assert spark.read.format("delta").load(str(tmp_path / "v")).count() == len(one.rows())


def test_upkeep_joins_the_files_of_small_batches(one: Written) -> None:
    """Also a file of which many rows are marked is written anew then, without them."""
    events = [Event(1, "c", id_, f"n{id_}", ordinal=id_ + 1) for id_ in range(KEYS)]
    one.apply(*events)
    for lsn in range(2, 8):
        changed = Event(lsn, "u", lsn % KEYS, f"m{lsn}", None)
        one.apply(changed)
        events.append(changed)
    before = len(one.table.file_uris())
    sink = one.opened_with(one.columns, optimize_batches=1, small_files=2)
    last = Event(9, "u", 0, "last", None)
    sink.write_changes(changes_of([last]), Batch("v", "of upkeep", 1, 1))
    assert before > 5
    assert len(one.table.file_uris()) == 1
    assert not pa.table(one.table.deletion_vectors().read_all()).num_rows
    assert one.rows() == expected(one.history, [*events, last])
