"""A stretch of a partition is read whole, whatever the client says between two polls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.structs import TopicPartition

from cdc.kafka.broker import Broker

PARTITION = TopicPartition("t", 0)
HOLES = (4, 5)


class Reader:
    """A client that passes two offsets a poll, some of them without a record, and loses touch with
    the leader at every other question for its position."""

    def __init__(self) -> None:
        self.at, self.asked = 0, 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [PARTITION]

    def seek(self, _partition: TopicPartition, offset: int) -> None:
        self.at = offset

    def poll(self, _ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        assert max_records
        offsets = [one for one in (self.at, self.at + 1) if one not in HOLES]
        self.at += 2
        if not offsets:
            return {}
        given = {"timestamp": 0, "key": b"", "value": b"", "headers": ()}
        return {PARTITION: [SimpleNamespace(offset=one, **given) for one in offsets]}

    def position(self, _partition: TopicPartition, timeout_ms: int) -> int:
        assert timeout_ms
        self.asked += 1
        if self.asked % 2:
            raise kafka_errors.NodeNotReadyError
        return self.at


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 9), (1, 5), (4, 6), (3, 3)])
def test_no_record_is_lost_where_the_client_does_not_know_how_far_it_is(
    start: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, reader = Broker("unused:1"), Reader()

    @contextmanager
    def opened(_doing: str) -> Iterator[Reader]:
        yield reader

    monkeypatch.setattr(broker._connection, "reader", opened)
    found = [one.offset for one in broker.read("t", 0, start, end)]
    assert found == [at for at in range(start, end) if at not in HOLES]
