"""What is in Kafka and when, through confluent-kafka.

Headwater reads Kafka through kafka-python; a measurement needs the client that adds least to
what it measures, so this module is the second of two that import confluent-kafka.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, monotonic_ns, sleep
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition, libversion

from cdc.errors import FatalError, HeadwaterError, RetryableError

PARTITIONS: Final = 2
"""Of every topic that is measured: what ``headwater init`` makes by default."""
_POLL_S: Final = 0.1
_BATCH: Final = 1_000
_TIMEOUT_S: Final = 30.0


def librdkafka_version() -> str:
    """Of the library that produces and, here, consumes."""
    return str(libversion()[0])


@contextmanager
def _consumer(bootstrap: str) -> Iterator[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "headwater-bench",
            "enable.auto.commit": False,
            "fetch.min.bytes": 1,
            "log_level": 2,
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        raise RetryableError(f"Kafka at {bootstrap}: {error.args[0].str()}") from None
    finally:
        consumer.close()


class Log:
    """One topic, asked how much is in it."""

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._parts = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def count(self) -> int:
        """Records that are durable, all partitions together. The topic must exist.

        A broker that has just come back is asked again until it leads its partitions.
        """
        deadline = monotonic() + _TIMEOUT_S
        while True:
            try:
                return sum(_end(self._consumer, part) for part in self._parts)
            except KafkaException:
                if monotonic() > deadline:
                    raise
                sleep(_POLL_S)


@contextmanager
def opened(bootstrap: str, topic: str) -> Iterator[Log]:
    """A connection for asking."""
    with _consumer(bootstrap) as consumer:
        yield Log(consumer, topic)


class Reader(threading.Thread):
    """Reads a topic's keys from its end on, and notes when each could be read.

    Use within ``reading``. Another thread may ask for the length of ``seen``, but may go through
    it only once nothing more comes.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"reader of {topic}", daemon=True)
        self._address, self._topic = bootstrap, topic
        self._halt, self.ready = threading.Event(), threading.Event()
        self.seen: dict[int, int] = {}
        """Monotonic ns by the id in the key."""
        self.newest = 0
        """The largest of these ids."""
        self._taking = threading.Lock()
        self._failure: HeadwaterError | None = None

    def run(self) -> None:
        try:
            with _consumer(self._address) as consumer:
                _seek(consumer, self._topic, -1)
                self.ready.set()
                while not self._halt.is_set():
                    self._take(consumer.poll(_POLL_S))
        except HeadwaterError as error:
            self._failure = error
        finally:
            self.ready.set()

    def check(self) -> None:
        """Raise what ended the reading: Kafka, or a row that came twice."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        self._halt.set()
        self.join()

    def first_above_ns(self, row: int) -> int:
        """When the first of the rows with a larger id could be read; one of them must be seen."""
        with self._taking:
            return min(at_ns for seen, at_ns in self.seen.items() if seen > row)

    def _take(self, message: Any) -> None:
        at_ns = monotonic_ns()
        if message is None or message.error():
            return  # what it lacks will be missed by who waits for it
        row = json.loads(message.key())["id"]
        if row in self.seen:
            raise FatalError(f"{self._topic} holds the insert of row {row} twice")
        with self._taking:
            self.seen[row] = at_ns
            self.newest = max(self.newest, row)


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Reader]:
    """A reader that has found the topic's end."""
    reader = Reader(bootstrap, topic)
    reader.start()
    reader.ready.wait()
    try:
        yield reader
    finally:
        reader.end()


def keys(bootstrap: str, topic: str) -> Iterator[bytes]:
    """The key of every record that the topic holds now, partition by partition as they come."""
    with _consumer(bootstrap) as consumer:
        left = Log(consumer, topic).count()
        _seek(consumer, topic, 0)
        while left:
            messages = consumer.consume(_BATCH, _TIMEOUT_S)
            if not messages:
                raise RetryableError(f"reading {topic}: nothing for {_TIMEOUT_S:.0f} s")
            for message in messages:
                if message.error():
                    raise RetryableError(f"reading {topic}: {message.error().str()}")
                yield message.key()
            left -= len(messages)


def _seek(consumer: Any, topic: str, offset: int) -> None:
    """To an offset in every partition; -1 is the end, as it is now."""
    parts = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    for part in parts:
        part.offset = _end(consumer, part) if offset == -1 else offset
    consumer.assign(parts)


def _end(consumer: Any, part: TopicPartition) -> int:
    return int(consumer.get_watermark_offsets(part, timeout=_TIMEOUT_S)[1])
