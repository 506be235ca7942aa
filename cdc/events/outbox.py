"""What ``headwater.emit`` (migrations/0002_outbox.sql) writes to WAL, as records. Pure.

The content of such a message is one line of JSON, a line feed and the payload. Whoever may write
logical messages may write others with this prefix: ``parse`` tells them apart.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, Protocol

from cdc.events.records import COMMIT_HEADER, POSITION_HEADER, Record
from cdc.lsn import Position
from cdc.topics import partition_for

PREFIX: Final = "headwater.outbox"
_TOPIC: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_OURS: Final = frozenset({"", "id", POSITION_HEADER, COMMIT_HEADER})


class Outbox(Protocol):
    """What the transcriber asks of its owner for emitted events, and for DDL."""

    @property
    def hides_values(self) -> bool:
        """Whether columns of the source must not leave it: DDL tells no defaults then, for a
        column may have been called otherwise."""

    def ddl(self, secret: str) -> str | None:
        """Kafka's topic for DDL, ready; None where the trigger has another secret."""

    def outbox(self, topic: str) -> str | None:
        """Make Kafka's topic ready for ``topic`` and name it; None when it may not be one."""

    def is_others(self, topic: str) -> bool:
        """Whether another source of the database publishes what is emitted to ``topic``."""

    def passed_over(self, lsn: int, why: str) -> None:
        """A message is published, but not as what its prefix says, or not whole."""


class Emitted(NamedTuple):
    """One call of ``emit``. ``payload`` None is a tombstone."""

    id: str
    topic: str
    key: bytes | None
    payload: bytes | None
    headers: dict[str, str]


def parse(content: bytes) -> Emitted | None:
    """The event in a message's content, None for anything that ``emit`` does not write."""
    head, separator, payload = content.partition(b"\n")
    try:
        document: dict[str, Any] = json.loads(head)
        id_, topic, key = document["id"], document["topic"], document["key"]
        headers, null = document["headers"] or {}, document["null"]
        told = {name: text.encode() for name, text in headers.items()}
        raw = None if key is None else key.encode()
        names = " ".join(headers)
        _ = id_.encode(), topic.encode(), names.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not separator or not _TOPIC.fullmatch(topic) or _OURS & told.keys() or "\0" in names:
        return None  # a name ends at its first NUL in Kafka's client
    return Emitted(id_, topic, raw, None if null is True else payload, headers)


def record(emitted: Emitted, position: Position, commit_ms: int, partitions: int) -> Record:
    """The record of an event: without a key in partition 0, so that order is kept."""
    key = emitted.key
    record: Record = {"key": key, "value": emitted.payload}
    if not key:  # Kafka's client would take an empty key for none, and choose at random
        record["partition"] = partition_for(key, partitions)
    record["headers"] = [
        ("id", emitted.id.encode()),
        (POSITION_HEADER, position.hex().encode()),
        (COMMIT_HEADER, b"%d" % commit_ms),
        *((name, text.encode()) for name, text in emitted.headers.items()),
    ]
    return record
