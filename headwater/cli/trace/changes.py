"""The last changes of a key in Kafka, searched backwards from the end, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from cdc.events.codes import TRUNCATE
from cdc.events.payload import payload
from cdc.kafka.broker import Broker, Record, windows_back
from cdc.kafka.partition_ends import Read
from cdc.topics import partition_for, unframed
from headwater.cli.trace.row_key import RowKey


class Change(NamedTuple):
    """One record. Moments are in seconds since 1970: ``committed_s`` by the source's clock,
    ``captured_s`` when capture saw it, ``sent_s`` when it sent it to Kafka."""

    offset: int
    op: str
    lsn: int
    ordinal: int
    committed_s: float
    captured_s: float
    sent_s: float


class KeyLog(NamedTuple):
    """``changes`` of the key, the newest first; records from offset ``start`` to ``end`` were
    searched, ``oldest`` is the first that Kafka still has. ``enough``: it ended with as many
    changes as were wanted."""

    topic: str
    partition: int
    changes: Sequence[Change]
    start: int
    end: int
    oldest: int
    enough: bool = False

    @property
    def complete(self) -> bool:
        """All that Kafka has of the partition was searched."""
        return self.start <= self.oldest


def key_log(
    broker: Broker,
    row: RowKey,
    changes: int,
    records: int,
    since_ms: int | None,
    read: Read = orjson.loads,
) -> KeyLog:
    """Of a row, until so many changes are found, or so many records were read. A TRUNCATE of its
    table counts as one of each key. ``read`` tells what a value says. Raises ``LogError`` when the
    topic does not exist."""
    wanted, topic = (unframed(row.event), None), row.topic
    partition = partition_for(row.placed, broker.partitions([topic]).get(topic, 1))
    oldest = broker.beginning_offsets([topic])[topic][partition]
    end = broker.end_offsets([topic])[topic][partition]
    floor = max(oldest, end - records)
    if since_ms is not None:
        floor = max(floor, broker.offsets_since([topic], since_ms)[topic][partition])
    found: list[Change] = []
    start = end
    for start, stop in windows_back(floor, end):
        own = [_change(one, row.table, read) for one in broker.read(topic, partition, start, stop)
               if unframed(one.key) in wanted and one.value is not None]  # fmt: skip
        found += reversed([one for one in own if one is not None])
        if len(found) >= changes:
            break
    enough = len(found) >= changes
    return KeyLog(topic, partition, found[:changes], start, end, oldest, enough)


def _change(record: Record, table: str, read: Read) -> Change | None:
    """None of what is without a key and no TRUNCATE of the table."""
    event = payload(read(record.value or b""))
    source, op = event["source"], event["op"]
    named = f"{source['schema']}.{source['table']}"
    if record.key is None and (op != TRUNCATE or named != table):
        return None
    return Change(
        record.offset,
        op,
        int(source["commit_lsn"]),
        int(source["ordinal"]),
        source["ts_ms"] / 1000,
        event["ts_ms"] / 1000,
        record.timestamp_ms / 1000,
    )
