"""What a bulk producer counts as waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import LogError
from cdc.kafka.bulk_producer import Backlog, BulkProducer


def test_large_rows_behind_many_small_ones_count_as_what_they_are() -> None:
    backlog = Backlog()
    for _ in range(1_000):
        backlog.add(2_000, 2_000 * 500)
        backlog.settle(0)
    for _ in range(10):
        backlog.add(10, 10_000_000)
    backlog.settle(100)
    assert backlog.bytes == 100_000_000
    backlog.settle(45)
    assert backlog.bytes == 50_000_000
    backlog.settle(0)
    assert backlog.bytes == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 9))))
def test_never_less_than_what_the_newest_records_weigh(steps: list[tuple[int, int, int]]) -> None:
    backlog, newest, waiting = Backlog(), list[int](), 0
    for records, each, acknowledged in steps:
        backlog.add(records, records * each)
        newest += [each] * records
        waiting = max(0, waiting + records - acknowledged)
        backlog.settle(waiting)
        assert backlog.bytes >= sum(newest[len(newest) - waiting :])
        if not waiting:
            assert backlog.bytes == 0


@pytest.mark.parametrize("way", ["send", "send_records"])
def test_a_record_that_is_not_taken_is_told_of_without_its_key(way: str) -> None:
    producer = BulkProducer("127.0.0.1:1", {"message.max.bytes": 2_000})
    key, value = b"ada@example.com", b"x" * 3_000
    record: Any = {"key": key, "value": value, "timestamp": 0}
    sends: dict[str, Callable[[], None]] = {
        "send": lambda: producer.send("t", [key], [value], 0),
        "send_records": lambda: producer.send_records("t", [record]),
    }
    try:
        with pytest.raises(LogError, match="topic t does not take a record of 3,000") as refused:
            sends[way]()
        assert "ada" not in str(refused.value)
    finally:
        producer.close()
