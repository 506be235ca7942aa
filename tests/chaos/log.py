"""What Kafka holds, as the checker reads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from cdc.lsn import Position
from tests.chaos.truth import key_text

_STALL_S: Final = 30.0

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
        """Neither a tombstone nor a row of a snapshot."""
        return self.value is not None and self.op != "r"


class Sample(NamedTuple):
    """The slot's confirmed LSN, and where Kafka ended at a moment after that. ``era`` counts the
    starts of the source's server."""

    confirmed: int
    ends: Ends
    era: int = 0


@dataclass(slots=True)
class Log:
    """All topics of a source. ``events`` holds those of tables and messages, ``marks`` the values
    of ``__progress`` in their order, ``samples`` what was seen of slot and Kafka meanwhile."""

    events: dict[Partition, list[Record]] = field(default_factory=dict)
    marks: list[dict[str, Any]] = field(default_factory=list)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """The settings of a client that says nothing of the broker's comings and goings."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def topics_of(bootstrap: str, source: str) -> dict[str, int]:
    """The topics of a source, with their number of partitions."""
    metadata = AdminClient(client(bootstrap)).list_topics(timeout=_STALL_S)
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
    topics = topics_of(bootstrap, source)
    ends = end_offsets(AdminClient(client(bootstrap)), topics, _STALL_S)
    log = Log(events={place: [] for place in ends if not place[0].startswith(f"{source}.__")})
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


def _keep(log: Log, source: str, message: Any) -> None:
    value = orjson.loads(message.value()) if message.value() is not None else None
    topic = message.topic()
    if topic == f"{source}.__progress":
        if value is not None:
            log.marks.append(value)
    elif topic == f"{source}.__schemas":
        if value is not None:
            log.schemas[value["schema_id"]] = value
    elif (topic, message.partition()) in log.events:
        key = key_text(orjson.loads(message.key())) if message.key() else None
        headers = {name: data.decode() for name, data in message.headers() or ()}
        record = Record(message.offset(), key, value, headers)
        log.events[topic, message.partition()].append(record)
