"""A consumer that notes when it could read each record, through confluent-kafka.

Headwater reads Kafka through kafka-python; a measurement needs the client that adds least to
what it measures, so this module is the second of two that import confluent-kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic_ns

from confluent_kafka import Consumer, TopicPartition, libversion

from cdc.broker import Broker
from cdc.errors import RetryableError

_POLL_S = 0.1


def librdkafka_version() -> str:
    """Of the library that produces and, here, consumes."""
    return str(libversion()[0])


def arrivals(bootstrap: str, topic: str) -> Iterator[tuple[bytes, int] | None]:
    """Keys of the topic's records from its end on, each with the monotonic time in ns at which
    it was there to be read; None about every 100 ms in which nothing came."""
    with Broker(bootstrap) as broker:
        ends = broker.end_offsets([topic])[topic]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "headwater-bench",
            "enable.auto.commit": False,
            "fetch.min.bytes": 1,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, p, end) for p, end in ends.items()])
        while True:
            message = consumer.poll(_POLL_S)
            at_ns = monotonic_ns()
            if message is None:
                yield None
            elif message.error():
                raise RetryableError(f"reading {topic}: {message.error().str()}")
            elif message.key() is not None:
                yield message.key(), at_ns
    finally:
        consumer.close()
