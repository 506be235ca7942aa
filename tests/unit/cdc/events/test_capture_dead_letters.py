"""Records that are too large: cut, left out after a restart, and whole again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from struct import pack

import pytest

from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.errors import LogError
from cdc.events.capture_dead_letters import DeadLetters, whole
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Block, Header, Record, weight
from cdc.kafka.broker import Offsets
from cdc.kafka.broker import Record as Read
from cdc.kafka.partition_ends import read_tails, scan, streamed
from cdc.lsn import Position
from tests.support.events.transcribed import (
    TOPIC,
    begin,
    commit,
    describe,
    frame,
    insert,
    relation,
    row,
)

LIMIT = 5_000
LETTERS = "s.__dead_letters"


def stream(size: int) -> tuple[bytes, ...]:
    """A transaction of three events, the first and the last one too large."""
    return (
        begin(200), describe(), insert(b"1", b"x" * size), insert(b"1", b"y"),
        insert(b"2", b"z" * 9_000), commit(200),
    )  # fmt: skip


STREAM = stream(30_000)


def transcribed(
    replay: KafkaReplay | None = None,
    frames: tuple[bytes, ...] = STREAM,
    ordinals: tuple[int, ...] = (1, 3),
) -> dict[str, list[Record]]:
    reported: list[Position] = []
    letters = DeadLetters("s", LIMIT, lambda _topic, position, _size: reported.append(position))
    made = Transcriber(
        SourceContext("1", "s", "db"), relation, lambda _r, _k, _x: None, lambda _t: 1, 50,
        replay, letters=letters,
    )  # fmt: skip
    for payload in frames:
        made.feed(frame(payload, 100))
    assert reported == [Position(200, ordinal) for ordinal in ordinals]
    found: dict[str, list[Record]] = {}
    for topic, records in made.take().records.items():
        for record in records:
            assert not isinstance(record, Block)
            found.setdefault(topic, []).append(record)
    return found


def read(records: list[Record]) -> list[Read]:
    return [
        Read(0, at, 0, r["key"], r["value"], r.get("headers", [])) for at, r in enumerate(records)
    ]


def test_a_record_that_is_too_large_is_cut_and_what_follows_flows() -> None:
    records = transcribed()
    (small,) = records[TOPIC]
    assert json.loads(small["value"] or b"")["after"] == {"id": 1, "a": "y"}
    assert all(weight(piece) <= LIMIT for piece in records[LETTERS])
    first, second = whole(read(records[LETTERS]))
    assert (first.topic, first.key, first.position) == (TOPIC, b'{"id":1}', Position(200, 1))
    assert json.loads(first.value)["after"]["a"] == "x" * 30_000
    assert json.loads(second.value)["source"]["ordinal"] == 3
    assert first.missing == second.missing == 0
    assert "above the limit of 5000" in first.cause


@pytest.mark.parametrize("kept", range(11))
def test_a_restart_writes_what_is_not_whole_again_from_its_first_piece(kept: int) -> None:
    first, *_ = whole(read(transcribed()[LETTERS]))
    step = len(transcribed()[LETTERS][0]["value"] or b"")
    size = 30_000 + step - len(first.value) % step + 60  # cut in its last 60 bytes
    before = read(transcribed(frames=stream(size))[LETTERS])[:kept]
    last = streamed(LETTERS, before[-1]) if before else None
    # What came after the first record was handed over when that was whole in Kafka.
    known = {(letter.topic, letter.position) for letter in whole(before) if not letter.missing}
    tails = {
        (LETTERS, 0): Tail(last.position if last else None),
        (TOPIC, 0): Tail(Position(200, 2) if known else None),
    }
    # What is formed anew is longer: it names the end of the transaction before.
    again = begin(150), commit(150), *stream(size)
    replay = KafkaReplay(100, tails, {TOPIC: 1, LETTERS: 1}, known)
    cut = tuple(n for n in (1, 3) if (TOPIC, Position(200, n)) not in known)
    records = transcribed(replay, again, cut)
    assert (TOPIC in records) != bool(known)
    letters = list(whole([*before, *read(records.get(LETTERS, []))]))
    assert [letter.position.ordinal for letter in letters] == [1, 3]
    assert [letter.missing for letter in letters] == [0, 0]
    texts = [json.loads(letter.value)["after"]["a"] for letter in letters]
    assert texts == ["x" * size, "z" * 9_000]


@pytest.mark.parametrize("kept", range(4))
def test_the_tombstone_of_a_delete_that_is_too_large_stands_once_after_a_restart(kept: int) -> None:
    """What was kept of the partition may end in it."""
    deleted = b"D" + pack(">I", 1) + b"O" + row(b"1", b"x" * 9_000)
    frames = begin(200), describe(), insert(b"1", b"y"), deleted, insert(b"2", b"z"), commit(200)
    whole_partition = transcribed(frames=frames, ordinals=(2,))[TOPIC]
    assert [record["value"] is None for record in whole_partition] == [False, True, False]
    held = read(whole_partition[:kept])
    last = scan(TOPIC, held).last
    tails = {
        (LETTERS, 0): Tail(Position(200, 2)),
        (TOPIC, 0): Tail(last.position if last else None),
    }
    replay = KafkaReplay(100, tails, {TOPIC: 1, LETTERS: 1}, {(TOPIC, Position(200, 2))})
    again = transcribed(replay, frames, ()).get(TOPIC, [])
    assert [*whole_partition[:kept], *again] == whole_partition


def test_what_was_a_dead_letter_is_not_an_event_when_it_is_smaller_now() -> None:
    """A value that had to be looked up may be another one, or gone."""
    tails = {(LETTERS, 0): Tail(Position(200, 1)), (TOPIC, 0): Tail(None)}
    replay = KafkaReplay(100, tails, {TOPIC: 1, LETTERS: 1}, {(TOPIC, Position(200, 1))})
    records = transcribed(replay, stream(10), (3,))
    assert [json.loads(r["value"] or b"")["source"]["ordinal"] for r in records[TOPIC]] == [2]
    assert [letter.position.ordinal for letter in whole(read(records[LETTERS]))] == [3]


def test_what_was_an_event_is_not_a_dead_letter_when_it_is_larger_now() -> None:
    tails = {(LETTERS, 0): Tail(None), (TOPIC, 0): Tail(Position(200, 1))}
    records = transcribed(KafkaReplay(100, tails, {TOPIC: 1, LETTERS: 1}), STREAM, (3,))
    assert [json.loads(r["value"] or b"")["source"]["ordinal"] for r in records[TOPIC]] == [2]
    assert [letter.position.ordinal for letter in whole(read(records[LETTERS]))] == [3]


def test_the_tombstone_of_a_delete_that_is_smaller_now_is_still_told() -> None:
    deleted = b"D" + pack(">I", 1) + b"O" + row(b"1", b"x" * 10)
    frames = begin(200), describe(), insert(b"1", b"y"), deleted, commit(200)
    tails = {(LETTERS, 0): Tail(Position(200, 2)), (TOPIC, 0): Tail(Position(200, 1))}
    replay = KafkaReplay(100, tails, {TOPIC: 1, LETTERS: 1}, {(TOPIC, Position(200, 2))})
    (tombstone,) = transcribed(replay, frames, ())[TOPIC]
    assert (tombstone["key"], tombstone["value"]) == (b'{"id":1}', None)
    assert tombstone.get("headers") == [("position", Position(200, 2).hex().encode())]


def test_a_record_with_missing_pieces_says_so() -> None:
    pieces = read(transcribed()[LETTERS])
    first, second = whole(pieces[1:-1])
    assert (first.missing, second.missing) == (1, 1)
    with pytest.raises(LogError, match="holds a record that is not a dead letter"):
        list(whole([Read(0, 0, 0, None, b"x")]))


def test_pieces_of_a_record_with_many_headers_fit() -> None:
    headers: list[Header] = [(f"h{i}", b"") for i in range(160)]
    record: Record = {"key": None, "value": b"x" * 9_000, "headers": headers}
    letters = DeadLetters("s", LIMIT, lambda *_: None)
    assert letters.takes(record)
    pieces = letters.pieces(TOPIC, record, Position(200, 1))
    assert all(weight(piece) <= LIMIT for piece in pieces)
    (letter,) = whole(read(pieces))
    assert letter.value == record["value"]
    assert letter.headers == headers


def piece_of(key: bytes | None, position: Position, value: bytes) -> list[Record]:
    letters = DeadLetters("s", LIMIT, lambda *_: None)
    return letters.pieces(TOPIC, {"key": key, "value": value}, position)


def test_pieces_of_several_writers_are_told_apart() -> None:
    """Workers of a snapshot share a position, and capture writes between them."""
    at = Position(500, 0)
    written = [
        piece_of(b"1", at, b"a" * 9_000),
        piece_of(b"2", at, b"b" * 9_000),
        piece_of(b"1", Position(400, 3), b"c" * 9_000),
    ]
    mixed = [piece for pieces in zip(*written, strict=True) for piece in pieces]
    letters = list(whole(read(mixed)))
    assert [(letter.key, letter.value[:1], letter.missing) for letter in letters] == [
        (b"1", b"a", 0), (b"2", b"b", 0), (b"1", b"c", 0),
    ]  # fmt: skip
    assert all(set(letter.value) == set(letter.value[:1]) for letter in letters)


def test_rows_of_a_snapshot_without_a_key_follow_each_other() -> None:
    at = Position(500, 0)
    pieces = piece_of(None, at, b"a" * 9_000) + piece_of(None, at, b"b" * 9_000)
    assert [letter.value[:1] for letter in whole(read(pieces))] == [b"a", b"b"]


def test_a_snapshots_dead_letters_say_nothing_of_the_stream() -> None:
    stream, snapshot = transcribed()[LETTERS], piece_of(b"1", Position(900, 0), b"a" * 9_000)
    assert [streamed(LETTERS, piece) for piece in read(snapshot)] == [None] * len(snapshot)
    records = read([*stream, *snapshot * 20])

    class Log:
        def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
            return {topic: {0: 0} for topic in topics}

        def end_offsets(self, topics: Sequence[str]) -> Offsets:
            return {topic: {0: len(records)} for topic in topics}

        def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Read]:
            del topic, partition
            return iter(records[start:end])

    (tail,) = read_tails(Log(), [LETTERS], {LETTERS: {0: 0}}).values()
    assert tail == Tail(Position(200, 3))
