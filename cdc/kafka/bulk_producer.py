"""Many records to Kafka at once, for snapshots: ``cdc.kafka.producer`` without its bookkeeping.

Nobody asks when a single record of a snapshot is durable, only whether all are. So
acknowledgements stay inside librdkafka and only failures are reported; ``flush`` returns when
nothing waits any more and nothing failed. That spares a call into Python for every record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from time import monotonic
from typing import Any, Final

from cdc.errors import FatalError, LogError, RetryableError
from cdc.events.formats.framing import MAGIC
from cdc.events.records import Header, Record, weight
from cdc.kafka.client import ENVELOPE_BYTES, HELD_BYTES, open_client
from cdc.kafka.security import PLAINTEXT, Security
from cdc.topics import partition_for

_POLL_S: Final = 0.005
"""A snapshot waits for the last record of each chunk."""
_STALLED_S: Final = 120.0
"""Kafka that takes nothing for so long ends the snapshot."""
ANY_PARTITION: Final = -1
_NOW: Final = 0
"""As a timestamp: when the client takes the record."""


class Backlog:
    """What was handed over and is not acknowledged, in bytes, told from the number of records.

    Partitions are acknowledged about as fast as each other, so the newest records are those that
    wait. Their own sizes count: a mean over all would let a gigabyte of large rows in behind
    millions of small ones.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._records = 0
        self._sends: deque[tuple[int, int]] = deque()

    def add(self, records: int, size: int) -> None:
        """Records handed over together; ``size`` in bytes."""
        self._sends.append((records, size))
        self._records += records
        self.bytes += size

    def settle(self, waiting: int) -> None:
        """So many records wait still."""
        while self._sends and self._records - self._sends[0][0] >= waiting:
            records, size = self._sends.popleft()
            self._records -= records
            self.bytes -= size


class BulkProducer:
    """``queue_bytes`` bounds what is handed over but not acknowledged."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, str | int | float | bool] | None = None,
        queue_bytes: int = 48 << 20,
        security: Security = PLAINTEXT,
    ) -> None:
        only_errors = {"delivery.report.only.error": True}
        self._client, max_bytes, self._login = open_client(
            bootstrap_servers, settings, self._on_error, security, more=only_errors
        )
        self.largest_record: Final = max_bytes - ENVELOPE_BYTES
        """What a record may weigh (``cdc.events.records.weight``), in bytes."""
        self._queue_bytes = queue_bytes
        self._backlog = Backlog()
        self._counts: dict[str, int] = {}
        self._error: FatalError | None = None
        self._trouble = ""

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamp_ms: int,
        partition: int | Sequence[int] = ANY_PARTITION,
        headers: list[Header] | None = None,
    ) -> None:
        """Hand over records in order, each with these headers, all to one partition or each to
        its own; waits while the queue is full.

        Raises ``LogError`` when Kafka refused a record and ``RetryableError`` when it takes
        nothing for ``_STALLED_S``.
        """
        self._wait_until(self._has_room)
        # By position: names cost as much as all else. After the partition the client expects
        # `callback`, its other name `on_delivery`, then the timestamp.
        produce, refused = self._client.produce, self._refused
        at: Iterable[int]
        if isinstance(partition, int):
            chosen = self._partitions(topic, keys) if partition == ANY_PARTITION else None
            at = chosen or repeat(partition, len(values))
        else:
            at = partition
        try:
            for key, value, where in zip(keys, values, at, strict=True):
                produce(topic, value, key, where, refused, None, timestamp_ms, headers)
        except Exception as error:
            raise _not_taken(topic, value, error) from error
        size = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
        self._backlog.add(len(values), size + len(values) * HELD_BYTES)
        self._poll(0)

    def send_records(self, topic: str, records: Iterable[Record]) -> None:
        """Hand over few large records that bring partition and headers; waits for room before
        each, raises as ``send`` does."""
        for record in records:
            self._wait_until(self._has_room)
            key, value = record["key"], record["value"]
            where, at = record.get("partition", ANY_PARTITION), _NOW
            try:
                self._client.produce(
                    topic, value, key, where, self._refused, None, at, record.get("headers")
                )
            except Exception as error:
                raise _not_taken(topic, value, error) from error
            self._backlog.add(1, weight(record) + HELD_BYTES)
        self._poll(0)

    def flush(self) -> None:
        """Wait until every record is acknowledged; raises as ``send`` does."""
        self._wait_until(lambda: not len(self._client))

    def close(self) -> None:
        """Release connections and threads; what waits still is given up."""
        self._client.purge()
        self._client.close()

    def count(self, topic: str) -> int:
        """The number of a topic's partitions."""
        if topic not in self._counts:
            self._counts[topic] = len(self._client.list_topics(topic, 10).topics[topic].partitions)
        return self._counts[topic]

    def _partitions(self, topic: str, keys: Sequence[bytes | None]) -> list[int] | None:
        """Of keys with a schema's id in front, by which the client must not choose."""
        if not keys or not (keys[0] or b"").startswith(MAGIC):
            return None
        return [partition_for(key, self.count(topic)) for key in keys]

    def _has_room(self) -> bool:
        self._backlog.settle(len(self._client))
        return self._backlog.bytes < self._queue_bytes

    def _wait_until(self, done: Callable[[], bool]) -> None:
        """Time runs only while the number of records that wait stands still."""
        waiting, deadline = len(self._client), monotonic() + _STALLED_S
        while not done():
            self._poll(_POLL_S)
            if len(self._client) != waiting:
                waiting, deadline = len(self._client), monotonic() + _STALLED_S
            elif monotonic() > deadline:
                raise RetryableError(
                    f"Kafka acknowledged nothing for {_STALLED_S:g} s, and {waiting} records "
                    "are waiting",
                    self._trouble or "check the brokers",
                )
        self._poll(0)

    def _poll(self, timeout_s: float) -> None:
        self._login.renew(self._client)
        self._client.poll(timeout_s)
        if self._error is not None:
            raise self._error

    def _refused(self, error: Any, message: Any) -> None:
        if error is not None and self._error is None:
            self._error = LogError(
                f"Kafka refused a record for {message.topic()}[{message.partition()}]: "
                f"{error.str()}",
                "fix the topic or the broker, then run `headwater init` again",
            )

    def _on_error(self, error: Any) -> None:
        self._trouble = error.str()
        if error.fatal() and self._error is None:
            self._error = LogError(f"Kafka: {error.str()}", "run `headwater init` again")


def _not_taken(topic: str, value: bytes | None, error: Exception) -> LogError:
    """The client itself refuses a record, mostly for its size. Its key is part of a row: nobody
    asked for that on a terminal or in a log."""
    said = error.args[0].str() if error.args and hasattr(error.args[0], "str") else error
    return LogError(
        f"topic {topic} does not take a record of {len(value or b''):,} bytes: {said}",
        "raise message.max.bytes in [kafka.producer] and max.message.bytes of the topic, or "
        'set capture.oversized = "dead_letter", then run the command again',
    )
