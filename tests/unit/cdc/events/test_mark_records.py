"""Progress marks as records: whole however many partitions they name, and whatever was killed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cdc.errors import LogError
from cdc.events.mark_records import mark_records, newest_of, withdrawing_keys
from cdc.events.marks import Mark
from cdc.events.records import Record, weight
from cdc.kafka.broker import Record as Read

LIMIT = 100_000


def mark(confirmed: int, topics: int = 1, partitions: int = 1) -> Mark:
    offsets = {
        f"s.public.t{i}": {
            p: (confirmed * (i + 7) * (p + 13)) % 10_000_019 for p in range(partitions)
        }
        for i in range(topics)
    }
    return Mark(confirmed, offsets, "7", 1, "db", "slot")


def read(records: Sequence[Record]) -> list[Read]:
    """As a topic holds them, the newest first."""
    found = [
        Read(0, at, 5, r["key"], r["value"], r.get("headers", [])) for at, r in enumerate(records)
    ]
    return found[::-1]


def compacted(records: Sequence[Record]) -> list[Record]:
    last = {record["key"]: at for at, record in enumerate(records)}
    return [record for at, record in enumerate(records) if last[record["key"]] == at]


def test_a_small_mark_is_one_record_in_plain_json() -> None:
    (record,) = mark_records(mark(100), "s", 1, LIMIT)
    assert record == {"key": b"s", "value": mark(100).encode(1), "partition": 0}
    stored = newest_of(read([record]), "p")
    assert stored is not None
    assert (stored.mark, stored.timestamp_ms, stored.parts) == (mark(100), 5, 0)


@pytest.mark.parametrize(("topics", "partitions"), [(300, 300), (8_000, 1), (2, 60_000)])
def test_a_mark_of_any_number_of_partitions_fits_its_limit(topics: int, partitions: int) -> None:
    whole = mark(100, topics, partitions)
    assert len(whole.encode(1)) > LIMIT
    records = mark_records(whole, "s", 1, LIMIT)
    assert all(weight(record) <= LIMIT for record in records)
    stored = newest_of(read(records), "p")
    assert stored is not None
    assert (stored.mark, stored.parts) == (whole, len(records))


def test_a_mark_that_was_not_finished_leaves_the_one_before_also_when_compacted() -> None:
    held: list[Record] = []
    turn, expected = 0, mark(0, 30, 300)
    for confirmed in range(1, 12):
        made = mark_records(mark(confirmed, 30, 300), "s", 1, 10_000, turn)
        assert len(made) > 2
        for kept in range(len(made)):
            for found in (held + made[:kept], compacted(held + made[:kept])):
                stored = newest_of(read(found), "p")
                assert (stored.mark if stored else mark(0, 30, 300)) == expected
        if confirmed % 3:  # every third one is killed and never finished
            held += made
            expected = mark(confirmed, 30, 300)
        else:
            held += made[: len(made) - 1]
        stored = newest_of(read(held), "p")
        assert stored is not None
        turn = stored.next_turn  # as the next capture finds it


def test_a_mark_that_is_taken_away_does_not_come_back_when_its_tombstones_are_gone() -> None:
    held = [
        record
        for turn, confirmed in ((0, 1), (1, 2), (0, 3))
        for record in mark_records(mark(confirmed, 30, 300), "s", 1, 10_000, turn)
    ]
    stored = newest_of(read(held), "p")
    assert stored is not None
    keys = withdrawing_keys("s", stored)
    gone: list[Record] = [{"key": key, "value": None} for key in keys]
    assert newest_of(read(held + gone), "p") is None
    left = [record for record in compacted(held + gone) if record["value"] is not None]
    assert newest_of(read(left), "p") is None


def test_what_is_no_mark_is_an_error() -> None:
    for headers in ([("part", b"7")], [("part", b"a/0/1")], [("part", b"a/x/1")], []):
        with pytest.raises(LogError, match="topic p holds a record that is no"):
            newest_of([Read(0, 0, 0, b"s#0/0", b"x", headers)], "p")
