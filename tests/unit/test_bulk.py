"""What a bulk producer counts as waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cdc.kafka.bulk import Backlog


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
