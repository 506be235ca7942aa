"""Replay: after a restart each partition gets exactly what it does not hold yet."""

from __future__ import annotations

import random

import pytest

from cdc.capture.duplicate_filter import KafkaReplay, SessionReplay, Tail
from cdc.events.records import Record
from cdc.lsn import Position
from cdc.topics import partition_for

TOPIC = "s.public.t"
PARTITIONS = {TOPIC: 3}


def record(key: bytes | None, value: bytes | None = b"{}", partition: int | None = None) -> Record:
    made: Record = {"key": key, "value": value}
    if partition is not None:
        made["partition"] = partition
    return made


def test_all_up_to_the_mark_is_held() -> None:
    replay = KafkaReplay(500, {}, PARTITIONS)
    assert replay.holds(TOPIC, record(b"k"), Position(500, 9))
    assert not replay.holds(TOPIC, record(b"k"), Position(501, 1))


def test_a_partition_holds_what_stands_at_or_below_its_tail() -> None:
    key = b'{"id":1}'
    mine = partition_for(key, 3)
    replay = KafkaReplay(500, {(TOPIC, mine): Tail(Position(700, 4))}, PARTITIONS)
    assert replay.holds(TOPIC, record(key), Position(700, 4))
    assert not replay.holds(TOPIC, record(key), Position(700, 5))
    other = (mine + 1) % 3
    assert not replay.holds(TOPIC, record(None, partition=other), Position(600, 1))


def test_a_delete_at_the_tail_gets_its_lost_tombstone() -> None:
    key = b'{"id":1}'
    tails = {(TOPIC, partition_for(key, 3)): Tail(Position(700, 4), True)}
    replay = KafkaReplay(500, tails, PARTITIONS)
    assert replay.holds(TOPIC, record(key), Position(700, 4))
    assert not replay.holds(TOPIC, record(key, None), Position(700, 4))
    assert replay.holds(TOPIC, record(key, None), Position(700, 3))


def test_replay_ends_behind_the_last_tail() -> None:
    replay = KafkaReplay(500, {(TOPIC, 0): Tail(Position(700, 4))}, PARTITIONS)
    assert not replay.passed(Position(700, 0))
    assert replay.passed(Position(701, 0))


def test_a_session_leaves_out_what_the_process_published() -> None:
    replay = SessionReplay(Position(800, 2), KafkaReplay(500, {}, PARTITIONS))
    assert replay.holds(TOPIC, record(b"k"), Position(800, 2))
    assert not replay.holds(TOPIC, record(b"k"), Position(800, 3))
    assert not replay.passed(Position(800, 0))
    assert replay.passed(Position(900, 0))


@pytest.mark.parametrize("seed", range(200))
def test_a_cut_log_is_completed_exactly_once(seed: int) -> None:
    """Random stream, random prefix of each partition kept: replay restores the whole."""
    rng = random.Random(seed)
    stream: list[tuple[Position, Record]] = []
    for commit in range(600, 600 + 10 * rng.randint(1, 12), 10):
        for ordinal in range(1, rng.randint(2, 7)):
            key = b'{"id":%d}' % rng.randint(1, 6)
            stream.append((Position(commit, ordinal), record(key)))
            if rng.random() < 0.3:
                stream.append((Position(commit, ordinal), record(key, None)))
    whole: dict[int, list[tuple[Position, Record]]] = {0: [], 1: [], 2: []}
    for position, item in stream:
        whole[partition_for(item["key"], 3)].append((position, item))
    held = {p: items[: rng.randint(0, len(items))] for p, items in whole.items()}
    tails = {(TOPIC, p): _tail(items) for p, items in held.items()}
    replay = KafkaReplay(500, tails, PARTITIONS)
    for position, item in stream:
        if not replay.holds(TOPIC, item, position):
            held[partition_for(item["key"], 3)].append((position, item))
    assert held == whole, f"seed {seed}"


def _tail(items: list[tuple[Position, Record]]) -> Tail:
    """What reading the end of a partition shows: whether a delete awaits its tombstone is not
    known from the records alone here, so it is taken from the stream."""
    if not items:
        return Tail(None)
    position, last = items[-1]
    return Tail(position, last["value"] is not None)
