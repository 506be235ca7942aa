"""What is made of bounded reads: the newest record, a compacted topic as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc.kafka.broker.client import Broker
from cdc.kafka.broker.reads import Record
from cdc.kafka.broker.topics import TopicSpec

_FIRST_WINDOW = 16
_LARGEST_WINDOW = 16_384


def different_partitions(broker: Broker, specs: Sequence[TopicSpec]) -> dict[str, tuple[int, int]]:
    """Topics whose partition count is not the wanted one: ``{topic: (wanted, has)}``."""
    has = broker.partitions([spec.name for spec in specs])
    return {
        spec.name: (spec.partitions, has[spec.name])
        for spec in specs
        if spec.name in has and has[spec.name] != spec.partitions
    }


def windows_back(floor: int, end: int) -> Iterator[tuple[int, int]]:
    """``[start, end)`` stretches from ``end`` down to ``floor``, each twice as long as the last."""
    size = _FIRST_WINDOW
    while end > floor:
        start = max(floor, end - size)
        yield start, end
        end, size = start, min(size * 2, _LARGEST_WINDOW)


def last_record(broker: Broker, topic: str, partition: int = 0) -> Record | None:
    """The newest record of a partition, None when it holds none."""
    end = broker.end_offsets([topic])[topic][partition]
    floor = broker.beginning_offsets([topic])[topic][partition]
    for start, stop in windows_back(floor, end):
        records = list(broker.read(topic, partition, start, stop))
        if records:
            return records[-1]
    return None


def read_compacted(broker: Broker, topic: str) -> dict[bytes, bytes]:
    """The last value of every key that has one: a compacted topic as the table it stands for.

    In the order of the last writes, within a partition.
    """
    table: dict[bytes, bytes] = {}
    ends = broker.end_offsets([topic])[topic]
    starts = broker.beginning_offsets([topic])[topic]
    for partition, end in ends.items():
        for record in broker.read(topic, partition, starts[partition], end):
            if record.key is None:
                continue
            table.pop(record.key, None)
            if record.value is not None:
                table[record.key] = record.value
    return table
