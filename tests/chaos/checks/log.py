"""What Kafka holds, as the checker reads it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from cdc.events.records import POSITION_HEADER
from cdc.lsn import Position, parse_position
from cdc.topics import dead_letters_topic, outbox_topic, transaction_topic
from tests.chaos.workload.truth import key_text

_STALL_S: Final = 30.0
_CHECKED: Final = ("op", "before", "after", "transaction", "message")
_CHECKED_OF_SOURCE: Final = ("commit_lsn", "ordinal", "txId", "schema_id", "schema", "table")
_LONGEST: Final = 100
PUT_BACK: Final = -1
"""The offset of a record that was a dead letter."""

Partition = tuple[str, int]
"""Topic and partition."""
Ends = dict[Partition, int]
"""Next offsets."""


class Record(NamedTuple):
    """A record; ``value`` is None for a tombstone, ``key`` in the form of ``key_text``."""

    offset: int
    key: str | None
    value: dict[str, Any] | None
    headers: Mapping[str, str] = {}
    size: int = 0
    """What counts against Kafka's limit, in bytes."""

    @property
    def op(self) -> str | None:
        """What an event says it is; None of a tombstone."""
        return None if self.value is None else self.value["op"]

    @property
    def position(self) -> Position:
        """Of an event, not of a tombstone."""
        assert self.value is not None
        return Position(self.value["source"]["commit_lsn"], self.value["source"]["ordinal"])

    @property
    def streamed(self) -> bool:
        """Neither a tombstone, nor a row of a snapshot, nor the TRUNCATE before its rows."""
        return self.value is not None and self.op != "r" and self.position.ordinal > 0


class Told(NamedTuple):
    """A record that is no event of a table, and says its position in a header."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int = 0

    @property
    def position(self) -> Position:
        """Its place in the stream."""
        return parse_position(self.header(POSITION_HEADER).encode())

    @property
    def streamed(self) -> bool:
        """It always is."""
        return True

    def header(self, name: str) -> str:
        """The text of a header, empty when there is none."""
        return (dict(self.headers).get(name) or b"").decode()


class Letter(NamedTuple):
    """A record that was too large. ``size`` as in ``Record``; ``missing`` counts pieces."""

    topic: str
    position: Position
    size: int
    missing: int


class Sample(NamedTuple):
    """The slot's confirmed LSN, and where Kafka ended at a moment after that. ``era`` counts the
    starts of the source's server."""

    confirmed: int
    ends: Ends
    era: int = 0


@dataclass(slots=True)
class Log:
    """All topics of a source. ``events`` holds those of tables and messages, ``told`` those of
    emitted events, of transactions and of dead letters, ``marks`` the values of ``__progress`` in
    their order, ``samples`` what was seen of slot and Kafka meanwhile. ``letters``:
    ``tests.chaos.checks.dead_letters``."""

    events: dict[Partition, list[Record]] = field(default_factory=dict)
    told: dict[Partition, list[Told]] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """The settings of a client that says nothing of the broker's comings and goings."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def topics_of(admin: AdminClient, source: str, timeout_s: float = _STALL_S) -> dict[str, int]:
    """The topics of a source, with their number of partitions. Raises ``KafkaException``."""
    metadata = admin.list_topics(timeout=timeout_s)
    return {
        name: len(topic.partitions)
        for name, topic in metadata.topics.items()
        if name.startswith(f"{source}.")
    }


def end_offsets(admin: AdminClient, topics: Mapping[str, int], timeout_s: float) -> Ends:
    """Where every partition ends now. Raises ``KafkaException``."""
    wanted = {
        TopicPartition(topic, partition): OffsetSpec.latest()
        for topic, count in topics.items()
        for partition in range(count)
    }
    answers = admin.list_offsets(wanted, request_timeout=timeout_s)
    return {(tp.topic, tp.partition): answer.result().offset for tp, answer in answers.items()}


def read_log(bootstrap: str, source: str) -> Log:
    """Everything, from the beginning to where each partition ends now."""
    admin = AdminClient(client(bootstrap))
    ends = end_offsets(admin, topics_of(admin, source), _STALL_S)
    log = _empty(ends, source)
    waiting = {place: end for place, end in ends.items() if end > 0}
    consumer = Consumer(
        {
            **client(bootstrap),
            "group.id": f"chaos-{source}",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t, p in waiting])
    deadline = time.monotonic() + _STALL_S
    try:
        while waiting:
            for message in consumer.consume(5_000, 0.1):
                if message.error() is not None:
                    raise AssertionError(f"reading {message.topic()}: {message.error()}")
                deadline = time.monotonic() + _STALL_S
                place = message.topic(), message.partition()
                if message.offset() < ends[place]:
                    _keep(log, source, message)
                if message.offset() + 1 >= ends[place]:
                    waiting.pop(place, None)
            assert time.monotonic() < deadline, f"nothing more to read of {waiting}"
    finally:
        consumer.close()
    return log


def _empty(ends: Ends, source: str) -> Log:
    log = Log()
    for place in ends:
        topic, _ = place
        if topic in (transaction_topic(source), dead_letters_topic(source)) or topic.startswith(
            outbox_topic(source, "")
        ):
            log.told[place] = []
        elif not topic.startswith(f"{source}.__"):
            log.events[place] = []
    return log


def record_of(
    offset: int, key: bytes | None, value: bytes | None, headers: Mapping[str, str]
) -> Record:
    """A record of a table, or of messages, from its bytes."""
    size = len(value or b"") + len(key or b"")
    size += sum(len(name.encode()) + len(text.encode()) + 10 for name, text in headers.items())
    name = key_text(orjson.loads(key)) if key else None
    return Record(offset, name, None if value is None else _parsed(value), headers, size)


def _parsed(value: bytes) -> dict[str, Any]:
    """An event, as far as it is checked: a run holds hundreds of thousands."""
    event = orjson.loads(value)
    found = {name: event[name] for name in _CHECKED if name in event}
    found["source"] = {name: event["source"].get(name) for name in _CHECKED_OF_SOURCE}
    for image in ("before", "after"):
        if found.get(image) is not None:
            found[image] = {name: brief(one) for name, one in found[image].items()}
    return found


def brief(value: Any) -> Any:
    """Large text by its size and digest, anything else as it is."""
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    digest = hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
    return f"{len(value)} characters, {digest}"


def _keep(log: Log, source: str, message: Any) -> None:
    topic, key, value = message.topic(), message.key(), message.value()
    place = topic, message.partition()
    if place in log.told:
        headers = message.headers() or ()
        (_, time_ms) = message.timestamp()
        log.told[place].append(Told(message.offset(), key, value, headers, time_ms))
    elif place in log.events:
        texts = {name: data.decode() for name, data in message.headers() or ()}
        log.events[place].append(record_of(message.offset(), key, value, texts))
    elif topic == f"{source}.__progress" and value is not None and not message.headers():
        log.marks.append(orjson.loads(value))
    elif topic == f"{source}.__schemas" and value is not None:
        schema = orjson.loads(value)
        log.schemas[schema["schema_id"]] = schema
