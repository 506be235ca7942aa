"""Records name their partition, as Java producers choose it, however many there come to be."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.capture.confirmation import Flight
from cdc.columnar.placement import ANY, placed
from cdc.events.records import Block, Record
from cdc.kafka.producer import Producer
from cdc.topics import partition_for

BLOCK = Block([b"k"], [b"v"], [1], 2, {0: 1})


def records(count: int) -> list[Record]:
    return [{"key": b'{"id":%d}' % i, "value": b"v"} for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 39, 40, 500])
def test_keys_are_placed_as_one_by_one(count: int) -> None:
    assert placed(records(count), 7) == [partition_for(r["key"], 7) for r in records(count)]


def test_what_names_a_partition_has_it_and_no_key_is_partition_0() -> None:
    named: Record = {"key": b"a", "value": b"v", "partition": 3}
    keyless: Record = {"key": None, "value": b"v"}
    found = placed([named, BLOCK, keyless, *records(50)], 7)
    assert found[:3] == [3, ANY, 0]
    assert found[3:] == placed(records(50), 7)
    assert placed([named, *records(2)], 0) == [3, ANY, ANY]


def test_partitions_that_are_added_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client knows of them as soon as it refreshes its metadata; our number stays."""
    producer, given = Producer("127.0.0.1:1"), list[tuple[Any, ...]]()
    producer.next_offsets["t"] = {0: 5, 1: 9}

    class Client:
        def produce(self, *arguments: Any) -> None:
            given.append(arguments)

    monkeypatch.setattr(producer, "_producer", Client())
    monkeypatch.setattr(producer._proving, "_produce", Client().produce)
    for record in records(50):
        producer.send({"t": [record]}, 2, Flight(1, 1))
    assert {arguments[3] for arguments in given} == {0, 1}  # the first of each, unproven still
