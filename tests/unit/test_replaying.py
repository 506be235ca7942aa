"""Where a replay begins, and what it writes down."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cdc.errors import UsageError
from cdc.kafka.broker import Offsets
from jobs.offsets import batch_offsets, committed_batch, finish_rewind, planned_offsets, rewind
from jobs.replaying import earlier, later
from jobs.rewinding import AtLsn, AtOffset, AtTime, Beginning, Place, first_at, parse_place
from jobs.state import Replay

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
