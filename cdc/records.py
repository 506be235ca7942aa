"""Records: what capture and snapshots hand to a producer. Pure."""

from __future__ import annotations

import json
from typing import Final, NotRequired, Protocol, TypedDict

from cdc.lsn import Position
from cdc.relation import Relation

POSITION_HEADER: Final = "position"
"""Says where a record stands in the stream when its value does not: ``Position.hex``."""


class Record(TypedDict):
    """One Kafka record, named as the producer's arguments are. Without ``partition`` the key
    decides. ``timestamp`` is in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    partition: NotRequired[int]
    headers: NotRequired[list[tuple[str, bytes]]]


class Batch:
    """Records by topic, each in order, with their number and size."""

    __slots__ = ("bytes", "count", "records")

    def __init__(self) -> None:
        self.records: dict[str, list[Record]] = {}
        self.count = 0
        self.bytes = 0


class Replay(Protocol):
    """What Kafka already holds, for the first moments after a restart."""

    def holds(self, topic: str, record: Record, position: Position) -> bool:
        """Whether this record stands in its partition already."""

    def passed(self, position: Position) -> bool:
        """Whether no position from here on can be held."""


def schema_record(relation: Relation, now_us: int) -> Record:
    """What ``__schemas`` holds for a version of a table."""
    value = json.dumps(relation.describe(), ensure_ascii=False, separators=(",", ":")).encode()
    return {"key": relation.schema_id().encode(), "value": value, "timestamp": now_us // 1000}


def truncate_record(value: bytes, partition: int, timestamp: int) -> Record:
    """A TRUNCATE for one partition: it has no key, and stands in every partition."""
    return {"key": None, "value": value, "timestamp": timestamp, "partition": partition}
