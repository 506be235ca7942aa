"""Tails against a log in memory that has gaps like a compacted topic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from cdc.capture.duplicate_filter import Tail
from cdc.errors import LogError
from cdc.kafka.broker import Offsets, Record
from cdc.kafka.partition_ends import read_tails, refuse_others
from cdc.lsn import Position

TOPIC = "shop.public.orders"


def event(lsn: int, ordinal: int, op: str = "c", **more: str) -> bytes:
    source = {"commit_lsn": lsn, "ordinal": ordinal, **more}
    return json.dumps({"op": op, "source": source}).encode()


class MemoryLog:
    """One topic of one partition: records by offset; offsets that are absent were compacted."""

    def __init__(self, records: dict[int, tuple[bytes | None, bytes | None]], end: int) -> None:
        self.records = records
        self.end = end
        self.lowest_read = end

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: min(self.records, default=self.end)} for topic in topics}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: self.end} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        assert topic == TOPIC
        self.lowest_read = min(self.lowest_read, start)
        for offset in sorted(self.records):
            if start <= offset < end:
                yield Record(partition, offset, 0, *self.records[offset])


def log_of(*records: tuple[bytes | None, bytes | None]) -> MemoryLog:
    return MemoryLog(dict(enumerate(records)), len(records))


def tail_of(log: MemoryLog, floor: int = 0) -> Tail:
    return read_tails(log, [TOPIC], {TOPIC: {0: floor}})[TOPIC, 0]


def test_an_empty_partition_has_no_position() -> None:
    assert tail_of(log_of()) == Tail(None)


def test_the_last_streamed_event_is_the_tail() -> None:
    log = log_of((b"1", event(100, 1)), (b"2", event(100, 2)), (b"1", event(200, 1, "u")))
    assert tail_of(log) == Tail(Position(200, 1))


def test_a_delete_followed_by_its_tombstone_owes_nothing() -> None:
    log = log_of((b"1", event(100, 1)), (b"1", event(200, 1, "d")), (b"1", None))
    assert tail_of(log) == Tail(Position(200, 1))


def test_a_delete_at_the_end_owes_its_tombstone() -> None:
    log = log_of((b"1", event(100, 1)), (b"1", None), (b"2", event(200, 7, "d")))
    assert tail_of(log) == Tail(Position(200, 7), delete_without_tombstone=True)


def test_a_delete_without_a_key_has_no_tombstone() -> None:
    assert tail_of(log_of((None, event(200, 1, "d")))) == Tail(Position(200, 1))


def test_a_truncate_and_a_message_are_streamed_events() -> None:
    assert tail_of(log_of((None, event(300, 4, "t")))) == Tail(Position(300, 4))
    assert tail_of(log_of((b"audit", event(300, 5, "m")))) == Tail(Position(300, 5))


def test_snapshot_rows_alone_leave_no_position() -> None:
    rows = [(b"%d" % i, event(500, 0, "r")) for i in range(1000)]
    assert tail_of(log_of(*rows)) == Tail(None)


def test_a_streamed_event_is_found_below_many_other_records() -> None:
    rows = [(b"%d" % i, event(900, 0, "r")) for i in range(1000)]
    assert tail_of(log_of((b"1", event(100, 1)), *rows)) == Tail(Position(100, 1))


@pytest.mark.parametrize("others", range(14, 20))
def test_a_tombstone_is_found_across_the_edge_of_a_stretch(others: int) -> None:
    rows = [(b"r%d" % i, event(900, 0, "r")) for i in range(others)]
    delete = (b"1", event(100, 1, "d"))
    assert tail_of(log_of(delete, (b"1", None), *rows)) == Tail(Position(100, 1))
    assert tail_of(log_of(delete, *rows)) == Tail(Position(100, 1), delete_without_tombstone=True)


def test_gaps_of_a_compacted_topic_are_passed_over() -> None:
    log = MemoryLog({3: (b"1", event(100, 1)), 700: (b"1", event(200, 1, "d"))}, end=5000)
    assert tail_of(log) == Tail(Position(200, 1), delete_without_tombstone=True)
    del log.records[700]
    log.records[4000] = (b"1", None)
    assert tail_of(log) == Tail(Position(100, 1))


@pytest.mark.parametrize("rows", [1, 40])
def test_a_row_of_table_add_between_a_delete_and_its_tombstone_hides_neither(rows: int) -> None:
    delete, added = (b"1", event(200, 1, "d")), [(b"2", event(900, 0, "r"))] * rows
    assert tail_of(log_of(delete, *added, (b"1", None))) == Tail(Position(200, 1))
    assert tail_of(log_of(delete, (b"1", None), *added)) == Tail(Position(200, 1))
    assert tail_of(log_of(delete, *added)) == Tail(Position(200, 1), delete_without_tombstone=True)


def test_a_streamed_event_is_found_below_rows_of_table_add_down_to_the_floor() -> None:
    added = [(b"%d" % i, event(900, 0, "r")) for i in range(40)]
    log = log_of(*[(b"1", event(100, 1))] * 10, *added)
    assert tail_of(log, floor=4) == Tail(Position(100, 1))
    assert tail_of(log, floor=10) == Tail(None)


def test_what_stands_below_the_floor_is_not_read() -> None:
    log = log_of(*[(b"%d" % i, event(900, 0, "r")) for i in range(500)], (b"1", None))
    assert tail_of(log, floor=490) == Tail(None)
    assert log.lowest_read == 490


def test_a_topic_that_lost_records_is_refused() -> None:
    with pytest.raises(LogError, match="ends at offset 1, but capture had written"):
        tail_of(log_of((b"1", event(100, 1))), floor=5)


@pytest.mark.parametrize("value", [b"text", b"[]", b'{"op":"c"}', b'{"op":"c","source":null}'])
def test_a_foreign_record_is_refused_by_its_place(value: bytes) -> None:
    with pytest.raises(LogError, match=r"shop\.public\.orders-0: .* offset 1 was not written by"):
        tail_of(log_of((b"1", event(100, 1)), (b"1", value)))


def named_tail(log: MemoryLog) -> Tail:
    return read_tails(log, [TOPIC], {}, source="shop")[TOPIC, 0]


def test_an_event_of_another_source_is_no_tail_of_ours() -> None:
    ours = (b"1", event(100, 1, name="shop"))
    higher = (b"9", event(5000, 1, name="crm"))
    assert named_tail(log_of(ours)) == Tail(Position(100, 1))
    with pytest.raises(LogError, match=r"orders-0: the record at offset 1 is of source crm"):
        named_tail(log_of(ours, higher))
    with pytest.raises(LogError, match="of source crm"):  # a row of its snapshot, too
        named_tail(log_of(ours, (b"9", event(5000, 0, "r", name="crm"))))
    assert tail_of(log_of(ours, higher)) == Tail(Position(5000, 1))


def test_an_event_that_names_no_source_is_ours() -> None:
    assert named_tail(log_of((b"1", event(100, 1)))) == Tail(Position(100, 1))


def test_a_topic_of_another_source_is_refused() -> None:
    ours, others = (b"1", event(100, 0, "r", name="shop")), (b"9", event(50, 1, name="crm"))
    gone = [(b"1", None)] * 40
    for log in (log_of(), log_of(ours), log_of(ours, *gone), log_of((b"1", event(100, 1)))):
        refuse_others(log, [TOPIC], "shop")
    for log in (log_of(others), log_of(ours, others), log_of(ours, others, *gone)):
        with pytest.raises(LogError, match="is of source crm"):
            refuse_others(log, [TOPIC], "shop")
    with pytest.raises(LogError, match="was not written by Headwater"):
        refuse_others(log_of((b"1", b"text")), [TOPIC], "shop")
