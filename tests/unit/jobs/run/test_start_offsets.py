"""Where a stream begins."""

from __future__ import annotations

from jobs.run.stream.start_offsets import Start, earlier_by_one


def test_one_partition_begins_a_record_earlier_if_it_has_one() -> None:
    start = Start({"a": {0: 0, 1: 5}, "b": {0: 7}}, {"a": {0: 0, 1: 4}, "b": {0: 0}})
    assert earlier_by_one(start) == {"a": {0: 0, 1: 4}, "b": {0: 7}}
    assert start.begin == {"a": {0: 0, 1: 5}, "b": {0: 7}}


def test_without_an_earlier_record_nothing_is_read_again() -> None:
    start = Start({"a": {0: 3}, "b": {0: 0}}, {"a": {0: 3}, "b": {0: 0}})
    assert earlier_by_one(start) == start.begin
