"""Records: what capture and snapshots hand to a producer. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, NotRequired, Protocol, TypedDict

from cdc.lsn import Position
from cdc.protocol.relation import Relation

POSITION_HEADER: Final = "position"
"""Says where a record stands in the stream when its value does not: ``Position.hex``."""
COMMIT_HEADER: Final = "commit_ms"
"""Says when it was committed when its value does not: milliseconds since 1970, in digits."""

Header = tuple[str, bytes | None]


class Record(TypedDict):
    """One Kafka record, named as the producer's arguments are. Without ``partition`` the key
    decides. Its timestamp is when the client takes it: one of the source's clock could lie beyond
    what a broker accepts, or beyond the topic's retention."""

    key: bytes | None
    value: bytes | None
    partition: NotRequired[int]
    headers: NotRequired[list[Header]]


class Written(Protocol):
    """A record as it is read back."""

    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def weight(record: Record) -> int:
    """What counts against Kafka's limit of one record, in bytes."""
    value, key = record["value"], record["key"]
    size = (len(value) if value else 0) + (len(key) if key else 0)
    for name, text in record.get("headers", ()):
        size += len(name.encode()) + len(text or b"") + 10  # their lengths, as varints
    return size


class Block(NamedTuple):
    """Many records of one topic in order, as columns. ``bytes`` is what keys and values weigh.

    ``closing`` has the index of each partition's last record, with the number of the partition's
    records: a partition acknowledges in order, so its last one speaks for all.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    partitions: list[int]
    bytes: int
    closing: dict[int, int]


class Batch:
    """Records by topic, each in order, with their number and size. ``awaited`` is how many
    acknowledgements there will be."""

    __slots__ = ("awaited", "bytes", "count", "records")

    def __init__(self) -> None:
        self.records: dict[str, list[Record | Block]] = {}
        self.count = 0
        self.awaited = 0
        self.bytes = 0

    def add(self, topic: str, record: Record, size: int) -> None:
        """One record more; ``size`` in bytes."""
        records = self.records.get(topic)
        if records is None:
            records = self.records[topic] = []
        records.append(record)
        self.count += 1
        self.awaited += 1
        self.bytes += size

    def add_block(self, topic: str, block: Block) -> None:
        """Many more."""
        self.records.setdefault(topic, []).append(block)
        self.count += len(block.values)
        self.awaited += len(block.closing)
        self.bytes += block.bytes


class Replay(Protocol):
    """What Kafka already holds, for the first moments after a restart."""

    def holds(self, topic: str, record: Record, position: Position) -> bool:
        """Whether this record stands in its partition already."""

    def lettered(self, topic: str, position: Position) -> bool:
        """Whether what is meant for ``topic`` is a dead letter already, whole. The beginning of a
        transaction has the position of its first event."""

    def passed(self, position: Position) -> bool:
        """Whether no position from here on can be held."""


def schema_record(relation: Relation, lsn: int) -> Record:
    """What ``__schemas`` holds for a version of a table, which it had at the commit LSN ``lsn``."""
    document = {**relation.describe(), "lsn": lsn}
    value = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return {"key": relation.schema_id().encode(), "value": value, "partition": 0}


def row_record(key: bytes | None, value: bytes | None, header: Header | None = None) -> Record:
    """An event of a row, or its tombstone. Events without a key keep their commit order."""
    record: Record = {"key": key, "value": value}
    if key is None:
        record["partition"] = 0
    if header is not None:
        record["headers"] = [header]
    return record


def truncate_records(value: bytes, partitions: int) -> Iterator[Record]:
    """A TRUNCATE has no key, and stands in every partition."""
    for partition in range(partitions):
        yield {"key": None, "value": value, "partition": partition}
