"""Where a replay begins, and what it writes down."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cdc.config import Config
from cdc.errors import LogError, UsageError, ViewError
from cdc.kafka.broker import Broker, Offsets, Record
from headwater.cli.replay import document, said
from jobs.delta_engine.mirrors.attempts import Attempts, write_attempts
from jobs.generations.declaration import declared
from jobs.generations.view_locks import turn
from jobs.generations.view_state import Beginning as Snapshot
from jobs.generations.view_state import Replay, ViewState, generation_id, open_state
from jobs.spark.checkpoint import batch_offsets, committed_batch, planned_offsets
from jobs.without_mirrors.replay.checkpoint_rewind import finish_rewind, rewind
from jobs.without_mirrors.replay.replay import earlier, later, replay
from jobs.without_mirrors.replay.start_position import (
    AtLsn,
    AtOffset,
    AtTime,
    Beginning,
    Place,
    first_at,
    parse_place,
)
from views.parse.definition import parse_view

TEN = 1795341600000
"""2026-11-22T10:00Z."""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", Beginning()),
        (" earliest ", Beginning()),
        ("0/16B3748", AtLsn(0x16B3748)),
        ("1234", AtOffset(1234)),
        ("shop.public.t-0-17", AtOffset(17, "shop.public.t", 0)),
        ("shop.public.a-b-3-17", AtOffset(17, "shop.public.a-b", 3)),
        ("2026-11-22T10:00Z", AtTime(TEN)),
        ("2026-11-22 10:00", AtTime(TEN)),
        ("2026-11-22T12:00:00+02:00", AtTime(TEN)),
        ("2026-11-22", AtTime(TEN - 10 * 3_600_000)),
    ],
)
def test_places_are_written_in_five_ways(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "yesterday", "0/", "x/y", "2026-13-01T00:00", "t-0", "-5"])
def test_anything_else_is_refused_with_all_of_them(text: str) -> None:
    with pytest.raises(UsageError, match=r"an LSN .*a time .*an offset"):
        parse_place(text)


class Partition:
    """Commit LSNs of a partition's records; None: a row of a snapshot, or a tombstone."""

    def __init__(self, lsns: list[int | None], look: int) -> None:
        self.lsns, self.look, self.reads = lsns, look, 0

    def probe(self, start: int, stop: int) -> int | None:
        self.reads += 1
        some = self.lsns[start : min(stop, start + self.look)]
        return next((lsn for lsn in some if lsn is not None), None)


def test_no_change_at_or_after_an_lsn_is_left_behind_the_start() -> None:
    rng = random.Random(11)
    for _ in range(3_000):
        changes = sorted(rng.randrange(30) for _ in range(rng.randrange(40)))
        lsns: list[int | None] = list(changes)
        for _ in range(rng.randrange(20)):  # rows of a snapshot, alone and in heaps
            at = rng.randrange(len(lsns) + 1)
            lsns[at:at] = [None] * rng.randrange(1, 5)
        wanted = rng.randrange(32)
        found = first_at(wanted, 0, len(lsns), Partition(lsns, rng.randrange(1, 8)).probe)
        first = next((i for i, lsn in enumerate(lsns) if lsn is not None and lsn >= wanted), None)
        assert 0 <= found <= (len(lsns) if first is None else first)


def test_a_place_among_a_million_changes_is_found_exactly_in_few_reads() -> None:
    partition = Partition(list(range(1_000_000)), 500)
    assert first_at(765_432, 0, 1_000_000, partition.probe) == 765_432
    assert partition.reads < 60
    assert first_at(2_000_000, 0, 1_000_000, partition.probe) == 1_000_000
    assert first_at(0, 0, 1_000_000, partition.probe) == 0
    assert first_at(5, 7, 7, partition.probe) == 7


def test_a_replay_never_begins_above_what_was_applied() -> None:
    applied = {"t": {0: 10, 1: 5}, "u": {0: 3}}
    assert earlier(applied, {"t": {0: 4, 1: 9}}) == {"t": {0: 4, 1: 5}, "u": {0: 3}}


def test_a_replay_within_another_is_over_where_the_first_would_be() -> None:
    first = Replay("beginning", {"t": {0: 0}}, {"t": {0: 10}}, 0.0)
    assert later(first, {"t": {0: 7, 1: 2}}) == {"t": {0: 10, 1: 2}}
    assert later(None, {"t": {0: 7}}) == {"t": {0: 7}}


def checkpoint_of(root: Path, planned: list[Offsets], committed: int) -> Path:
    """As Spark writes it."""
    for folder in ("offsets", "commits"):
        (root / folder).mkdir()
    for number, offsets in enumerate(planned):
        said = str(offsets).replace("'", '"')
        for partition in (0, 1):
            said = said.replace(f"{{{partition}:", f'{{"{partition}":')
            said = said.replace(f" {partition}:", f'"{partition}":')
        (root / "offsets" / str(number)).write_text(f'v1\n{{"conf":{{}}}}\n{said}')
    for number in range(committed + 1):
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return root


def test_going_back_is_one_more_committed_batch(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, [{"t": {0: 5}}, {"t": {0: 9}}], committed=1)
    rewind(checkpoint, {"t": {0: 2}})
    assert committed_batch(checkpoint) == 2
    assert batch_offsets(checkpoint, 2) == {"t": {0: 2}}
    assert (checkpoint / "offsets" / "2").read_text().startswith('v1\n{"conf":{}}\n')
    assert (checkpoint / "commits" / "2").read_text() == 'v1\n{"nextBatchWatermarkMs":0}'
    finish_rewind(checkpoint)
    assert committed_batch(checkpoint) == 2


def test_a_batch_that_was_planned_only_is_passed_over_and_its_number_is_not_used_again(
    tmp_path: Path,
) -> None:
    checkpoint = checkpoint_of(tmp_path, [{"t": {0: 5}}, {"t": {0: 9}}], committed=0)
    finish_rewind(checkpoint)
    assert committed_batch(checkpoint) == 0  # it goes on, and is none of ours
    rewind(checkpoint, {"t": {0: 5}})
    assert committed_batch(checkpoint) == 2
    assert planned_offsets(checkpoint) == {"t": {0: 5}}


def test_one_that_was_killed_half_way_is_finished(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, [{"t": {0: 5}}, {"t": {0: 2}}], committed=0)
    finish_rewind(checkpoint)
    assert committed_batch(checkpoint) == 1


class LogInMemory(Broker):
    """One partition of ten changes, at LSNs and times of 10 each; the group that was committed."""

    def __init__(self, gone: int = 0) -> None:
        self.gone = gone
        self.group: Offsets = {}
        self.noted: tuple[str, Offsets | None] = "", None

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic == TOPIC}

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(topics, "first")

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: self.gone} for topic in topics}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: 10} for topic in topics}

    def offsets_since(self, topics: Sequence[str], timestamp_ms: int) -> Offsets:
        first = -(-timestamp_ms // 10)
        return {topic: {0: min(max(first, self.gone), 10)} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        assert topic == TOPIC
        for at in range(start, end):
            event = {"source": {"commit_lsn": 10 * at, "ordinal": 1}}
            yield Record(partition, at, 10 * at, b"", json.dumps(event).encode())

    def commit_group(
        self, group: str, offsets: Offsets, note: str = "", reached: Offsets | None = None
    ) -> None:
        self.noted = note, reached
        assert group == "headwater.v"
        self.group = offsets


TOPIC = "s.public.t"
LOST = r"store \w+ no longer holds the changes that were applied to it, or .*view rebuild v`"


def config_of(root: Path, sql: str = "select id from t") -> Config:
    return Config.model_validate(
        {
            "source": {"name": "s", "dsn": "dbname=unused", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": "localhost:1"},
            "stores": {"memory": {"kind": "redis", "url": "redis://localhost:1/0"}},
            "views": {"v": {"store": "memory", "key": ["id"], "sql": sql}},
            "apply": {"state": str(root)},
        }
    )


def begun(root: Path, sql: str = "select id from t", lsn: int | None = None) -> Path:
    """A view that has applied seven changes, filled from a snapshot at offset 2 if ``lsn``."""
    beginning = None if lsn is None else Snapshot({TOPIC: {0: 2}}, lsn, lsn)
    state = open_state(
        root / "s" / "v", declared(parse_view("v", "memory", ["id"], sql)), beginning
    )
    state.checkpoint.mkdir()
    return checkpoint_of(state.checkpoint, [{TOPIC: {0: 7}}], committed=0)


@pytest.mark.parametrize(
    ("place", "start"),
    [("beginning", 0), ("0/1E", 3), ("0/1F", 4), ("5", 5), (f"{TOPIC}-0-6", 6),
     ("1970-01-01T00:00:00.041", 5)],
)  # fmt: skip
def test_a_replay_puts_stream_and_group_back(tmp_path: Path, place: str, start: int) -> None:
    checkpoint, log = begun(tmp_path), LogInMemory()
    done = replay(config_of(tmp_path), log, "v", place, parse_place(place))
    assert (done.starts, done.records) == ({TOPIC: {0: start}}, 7 - start)
    assert log.group == batch_offsets(checkpoint, 1) == done.starts
    found = ViewState(checkpoint.parent, "").replay()
    assert found is not None
    assert (found.place, found.until) == (place, {TOPIC: {0: 7}})
    assert found.goes_on(log.group)
    assert "offsets 0 to 6" in said("v", done) or start
    assert document("v", done)["records"] == 7 - start


@pytest.mark.parametrize("place", ["beginning", "0/1", "1", "1970-01-01"])
def test_nothing_from_before_a_view_s_snapshot_comes_again(tmp_path: Path, place: str) -> None:
    begun(tmp_path, lsn=20)
    log = LogInMemory(gone=1)  # and that it is gone matters to nobody
    replay(config_of(tmp_path), log, "v", place, parse_place(place))
    assert log.group == {TOPIC: {0: 2}}


def test_what_cannot_be_replayed_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.generations.live_view_lock.BUSY_S", 0.1)

    def refused(error: type[Exception], match: str, place: str, log: LogInMemory) -> None:
        with pytest.raises(error, match=match):
            replay(config_of(tmp_path), log, "v", place, parse_place(place))
        assert log.group == {}

    refused(ViewError, "no changes have been applied to it", "beginning", LogInMemory())
    checkpoint = begun(tmp_path)
    refused(UsageError, "applied nothing after that position", "8", LogInMemory())
    refused(UsageError, "does not read s.public.u-0", "s.public.u-0-3", LogInMemory())
    late = LogInMemory(gone=3)
    for place in ("0/15", "2", "1970-01-01T00:00:00.021"):
        refused(LogError, r"t-0 begins at offset 3, .*, LSN 0/1E. Use --from begin", place, late)
    with turn(checkpoint.parent, "build", 0):
        refused(ViewError, "another headwater .*builds", "beginning", LogInMemory())
    ViewState(checkpoint.parent, "").remember_lost()
    refused(ViewError, LOST, "beginning", LogInMemory())
    assert committed_batch(checkpoint) == 0


def test_a_view_of_several_rows_goes_back_to_where_its_mirrors_are_told_of(tmp_path: Path) -> None:
    """They may have had a batch that is not committed; and the group tells how far it was."""
    sql = "select id, count(*) as n from t group by id"
    checkpoint, log = begun(tmp_path, sql), LogInMemory()
    state = ViewState(checkpoint.parent, generation_id(checkpoint.parent) or "")
    state.mirrors.mkdir()
    write_attempts(state.mirrors, Attempts(offsets={TOPIC: {0: 9}}))
    done = replay(config_of(tmp_path, sql), log, "v", "5", parse_place("5"))
    assert (done.starts, done.until) == ({TOPIC: {0: 5}}, {TOPIC: {0: 7}})
    found = state.replay()
    assert found is not None
    assert found.until == {TOPIC: {0: 9}}
    assert log.noted == (state.generation, found.until)
