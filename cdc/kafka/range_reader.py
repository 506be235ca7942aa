"""Stretches of Kafka's partitions, read as fast as librdkafka can: from one offset up to another.

It joins no group and commits nothing. What is not there any more, or not yet, is a fault: a
stretch is read to its end or not at all. ``cdc.kafka.broker`` reads what is few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from cdc.errors import LogError, RetryableError
from cdc.events.readers.records import Raw as Raw
from cdc.kafka.security import Security, for_librdkafka_elsewhere

_AT_ONCE: Final = 300
"""Records that the client hands over together."""
_POLL_S: Final = 0.5
_SILENT_S: Final = 15.0
"""A broker that says nothing for so long is away."""
_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "group.id": "headwater",  # the client wants a name; without a subscription nothing joins it
    "client.id": "headwater",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",  # as Spark's source reads, and `cdc.kafka.broker`
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 5,  # else it rests for a second whenever so much waits
    "log_level": 2,
}


class Stretch(NamedTuple):
    """The records of a partition from the offset ``begin`` up to, without it, ``end``."""

    topic: str
    partition: int
    begin: int
    end: int


def reading(bootstrap_servers: str, security: Security) -> dict[str, str | int | bool]:
    """A client's settings, for wherever it reads: files are read now. ``ConfigError`` for one that
    cannot be."""
    private = for_librdkafka_elsewhere(security)
    return {**_SETTINGS, **private, "bootstrap.servers": bootstrap_servers}


def read_stretch(settings: Mapping[str, str | int | bool], stretch: Stretch) -> Iterator[list[Raw]]:
    """The records, in order, some hundred at a time; offsets without one are passed over.

    ``settings`` are those of ``reading``. Raises ``LogError`` where Kafka does not hold the
    stretch, ``RetryableError`` where it does not answer.
    """
    if stretch.begin >= stretch.end:
        return
    client = Consumer(dict(settings))
    try:
        client.assign([TopicPartition(stretch.topic, stretch.partition, stretch.begin)])
        heard, done = monotonic(), False
        while not done:
            found = consumed(client, _AT_ONCE, _POLL_S)
            if found:
                heard = monotonic()
            elif monotonic() - heard > _SILENT_S:
                raise RetryableError(
                    f"reading {_name(stretch)}: Kafka has not answered for {_SILENT_S:.0f} s",
                    "check that Kafka is running",
                )
            records = list[Raw]()
            for message in found:
                if (error := message.error()) is not None:
                    done = _is_end(stretch, error, message.offset())
                elif (offset := message.offset()) >= stretch.end:
                    done = True
                else:
                    records.append((message.key(), message.value(), offset))
                    done = offset + 1 == stretch.end
                if done:
                    break
            if records:
                yield records
    except KafkaException as error:
        raise LogError(f"reading {_name(stretch)}: {error.args[0].str()}") from None
    finally:
        client.close()


def consumed(client: Consumer, at_most: int, timeout_s: float) -> list[Message]:
    """What there is, as soon as there is something: asked for several, the client waits until it
    has as many or the time is over."""
    found: list[Message] = client.consume(1, timeout_s)
    if found:
        found += client.consume(at_most, 0)
    return found


def _is_end(stretch: Stretch, error: KafkaError, offset: int) -> bool:
    """Whether the partition ends where the stretch does: its last offsets may hold no record."""
    if error.code() != KafkaError._PARTITION_EOF:
        raise LogError(f"reading {_name(stretch)}: {error.str()}")
    if offset < stretch.end:
        raise LogError(f"reading {_name(stretch)}: the partition ends at offset {offset}")
    return True


def _name(stretch: Stretch) -> str:
    topic, partition, begin, end = stretch
    return f"{topic}-{partition} from offset {begin} to {end}"
