"""How far the mirrors are, over batches that come again, come too early, and are forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdc.errors import RetryableError
from cdc.lsn import Position
from jobs.state.batch import stream_offsets as progress
from jobs.state.batch.stream_offsets import (
    add_partitions,
    advance,
    batch_at,
    batch_with,
    begin_batch,
    end_batch,
    forget_batches,
    forget_offsets,
    offsets_of,
    read_progress,
    recreated_topics,
    remove_topics,
    stream_offsets,
)
from jobs.state.server.connection import Connection, connect
from jobs.state.server.migration import migrate

TOPIC = "s.public.a"


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    with connect(database, autocommit=True) as found:
        migrate(found)
        add_partitions(found, {TOPIC: {0: 5, 1: 7}})
        yield found


def apply(conn: Connection, begin: int, end: int, lsn: int = 0) -> bool:
    """A batch of partition 0; whether it was news."""
    with conn.transaction():
        held = begin_batch(conn, {TOPIC: {0: begin, 1: 7}}, {TOPIC: {0: end, 1: 7}})
        if held is not None:
            end_batch(conn, held, {TOPIC: {0: end, 1: 7}}, lsn, None)
    return held is not None


def test_a_position_rises_with_every_batch_whatever_its_changes_were(conn: Connection) -> None:
    seen = [read_progress(conn).position]
    for begin, lsn in ((5, 100), (6, 90), (7, 0)):
        assert apply(conn, begin, begin + 1, lsn)
        seen.append(read_progress(conn).position)
    advance(conn)
    seen.append(read_progress(conn).position)
    assert seen == sorted(set(seen))
    assert seen[-1].commit_lsn == 100
    assert seen[-2].ordinal == 8 + 7, "the sum of the offsets"


def test_a_batch_that_comes_again_is_known_and_one_that_leaves_a_gap_is_refused(
    conn: Connection,
) -> None:
    assert apply(conn, 5, 9)
    assert not apply(conn, 5, 9)
    assert not apply(conn, 5, 8)
    with pytest.raises(RetryableError, match=f"{TOPIC}-0-11"):
        apply(conn, 11, 12)
    assert stream_offsets(conn) == {TOPIC: {0: 9, 1: 7}}


def test_a_topic_that_is_removed_takes_nothing_from_the_position(conn: Connection) -> None:
    apply(conn, 5, 50)
    before = read_progress(conn)
    remove_topics(conn, [TOPIC])
    add_partitions(conn, {"s.public.b": {0: 0}})
    with conn.transaction():
        held = begin_batch(conn, {"s.public.b": {0: 0}}, {"s.public.b": {0: 1}})
        assert held is not None
        end_batch(conn, held, {"s.public.b": {0: 1}}, 0, None)
    assert read_progress(conn).total > before.total


def test_a_topic_that_has_another_id_now_is_told_and_an_unknown_id_is_remembered(
    conn: Connection,
) -> None:
    add_partitions(conn, {"s.public.b": {0: 3}}, {"s.public.b": "b1"})
    now = {TOPIC: "a1", "s.public.b": "b1"}
    assert recreated_topics(conn, now) == []
    assert apply(conn, 5, 9)
    assert recreated_topics(conn, now) == []
    assert recreated_topics(conn, {}) == []
    assert recreated_topics(conn, {TOPIC: "a2", "s.public.b": "b1"}) == [TOPIC]
    add_partitions(conn, {TOPIC: {0: 0, 1: 0}}, {TOPIC: "a2"})
    assert recreated_topics(conn, {TOPIC: "a2", "s.public.b": "b2"}) == ["s.public.b"]


def test_batches_are_forgotten_when_all_have_reached_them_or_there_are_too_many(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for begin in range(5, 15):
        apply(conn, begin, begin + 1)
    monkeypatch.setattr(progress, "KEPT_BATCHES", 2)
    forget_batches(conn, 5)
    assert sorted(offsets_of(conn, range(1, 11))) == [3, 4, 5, 6, 7, 8, 9, 10]
    monkeypatch.setattr(progress, "MOST_BATCHES", 4)
    forget_batches(conn, -1)
    assert sorted(offsets_of(conn, range(1, 11))) == [6, 7, 8, 9, 10]
    assert offsets_of(conn, [10]) == {10: {TOPIC: {0: 15, 1: 7}}}


def test_the_batch_of_a_record_and_of_a_version_is_told_as_long_as_it_is_remembered(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_s = time.time()
    for begin in (5, 9, 11):  # records 5 to 8, 9 to 10, 11
        apply(conn, begin, {5: 9, 9: 11, 11: 12}[begin], lsn=begin)
    found = {offset: batch_with(conn, (TOPIC, 0), offset) for offset in range(4, 13)}
    numbers = {offset: at and at[0] for offset, at in found.items()}
    assert numbers == {4: 1, 5: 1, 8: 1, 6: 1, 7: 1, 9: 2, 10: 2, 11: 3, 12: None}
    times = [before_s, *(at[1] for at in found.values() if at), time.time()]
    assert times == sorted(times)
    assert batch_with(conn, ("s.public.b", 0), 5) is None
    assert batch_at(conn, read_progress(conn).position) == found[11]
    assert batch_at(conn, Position(11, 1)) is None

    monkeypatch.setattr(progress, "KEPT_BATCHES", 1)
    forget_batches(conn, 3)
    assert batch_with(conn, (TOPIC, 0), 8) is None, "batch 1 was that, or one before"
    assert batch_with(conn, (TOPIC, 0), 9) is None
    assert batch_with(conn, (TOPIC, 0), 11) == found[11]

    remove_topics(conn, [TOPIC])  # another one has its name
    forget_offsets(conn, [TOPIC])
    add_partitions(conn, {TOPIC: {0: 0}})
    apply(conn, 0, 6)
    told = batch_with(conn, (TOPIC, 0), 5)
    assert told is not None
    assert told[0] == 4
