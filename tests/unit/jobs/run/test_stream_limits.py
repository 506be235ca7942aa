"""Where a batch of the stream ends. Pure."""

from __future__ import annotations

import pytest

from cdc.kafka.broker import Offsets
from jobs.run.stream.stream import limited

BEGIN: Offsets = {"a": {0: 10, 1: 0}, "b": {0: 5}}


@pytest.mark.parametrize(
    ("end", "most", "expected"),
    [
        ({"a": {0: 20, 1: 5}, "b": {0: 5}}, 15, {"a": {0: 20, 1: 5}, "b": {0: 5}}),
        ({"a": {0: 30, 1: 20}, "b": {0: 5}}, 20, {"a": {0: 20, 1: 10}, "b": {0: 5}}),
        ({"a": {0: 11, 1: 1}, "b": {0: 6}}, 1, {"a": {0: 11, 1: 1}, "b": {0: 6}}),
        ({"a": {0: 1_010, 1: 2}, "b": {0: 5}}, 10, {"a": {0: 19, 1: 1}, "b": {0: 5}}),
        ({"a": {0: 10, 1: 0}, "b": {0: 5}}, 10, BEGIN),
    ],
)
def test_a_batch_takes_of_each_partition_alike_and_some_of_each(
    end: Offsets, most: int, expected: Offsets
) -> None:
    assert limited(BEGIN, end, most) == expected
