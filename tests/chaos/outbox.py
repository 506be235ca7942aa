"""Events that clients emit with no table: how, and what of them stands in their topics."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Final

from cdc.lsn import Position
from cdc.topics import outbox_topic, partition_for
from tests.chaos.actions import Changes, Connection
from tests.chaos.log import Log, Told
from tests.chaos.tables import Table
from tests.chaos.truth import Change, Truth

TOPICS: Final = ("orders", "audit")
_KEYS: Final = ("a", "b", "Zoë", None)
_REPEATED: Final = (1, 1, 1, 60, 2_000, 9_000)
"""Payloads are so many times 16 bytes: the last two are too large in some seeds."""
_EMIT: Final = b'select headwater.emit(%s, %s, %s::text, \'{"kind": "made"}\')::text'


def emit(conn: Connection, rng: random.Random, _table: Table, made: Changes) -> None:
    """Some events of a few keys, or without one."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        topic, key = rng.choice(TOPICS), rng.choice(_KEYS)
        payload = None
        if rng.random() < 0.85:
            payload = f"{rng.getrandbits(64):016x}" * rng.choice(_REPEATED)
        row = conn.execute(_EMIT, (topic, key, payload)).fetchone()
        assert row is not None
        text = None if payload is None else payload.encode()
        made.append(Change("e", f"outbox.{topic}", key, _token(row[0], text)))


def _token(id_: str, payload: bytes | None) -> str:
    digest = "null" if payload is None else hashlib.md5(payload, usedforsecurity=False).hexdigest()
    return f"{id_} {digest}"


def emitted_by(truth: Truth) -> dict[str, int]:
    """The transactions of all committed events, by the id that ``emit`` gave."""
    return {
        str(change.token).split()[0]: transaction.xid
        for transaction in truth.committed
        for change in transaction.changes
        if change.op == "e"
    }


def topics_of_events(truth: Truth, source: str) -> set[str]:
    """Kafka's topics of all committed events."""
    changes = (change for transaction in truth.committed for change in transaction.changes)
    return {f"{source}.{change.what}" for change in changes if change.op == "e"}


def emitted(log: Log, source: str) -> Iterator[tuple[str, Position, Change]]:
    """What stands in the topics of events: id, position, and the change it tells of."""
    for (topic, _), records in log.told.items():
        if not topic.startswith(outbox_topic(source, "")):
            continue
        for record in records:
            key = None if record.key is None else record.key.decode()
            id_ = record.header("id")
            what = topic.removeprefix(f"{source}.")
            yield id_, record.position, Change("e", what, key, _token(id_, record.value))


def placed(log: Log, source: str) -> Iterator[str]:
    """Findings where an event stands in another partition than its key's, or has lost a header."""
    counts: dict[str, int] = {}
    for topic, _ in log.told:
        counts[topic] = counts.get(topic, 0) + 1
    for (topic, partition), records in log.told.items():
        if not topic.startswith(outbox_topic(source, "")):
            continue
        for record in records:
            yield from _misplaced(record, topic, partition, counts[topic])


def _misplaced(record: Told, topic: str, partition: int, count: int) -> Iterator[str]:
    at = f"{topic}[{partition}] at {record.offset}"
    if partition_for(record.key, count) != partition:
        yield f"{at}: not the partition of key {record.key!r}"
    if record.header("kind") != "made":
        yield f"{at}: its header kind is {record.header('kind')!r}"
