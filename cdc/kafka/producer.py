"""Records to Kafka, through confluent-kafka: idempotent, acknowledged by all replicas, in order.

Records go one by one: the client's batch call takes no headers, and measured
no faster; a ``Block`` is reported once a partition. ``send`` never blocks and never reorders. The
producer's own queue is so large that it is never full; what bounds memory is ``has_room``, which
the owner asks before it reads more from the source. Acknowledgements count down a ``Flight`` and
move ``next_offsets``; a record that Kafka refuses for good stops all that follows
(``enable.gapless.guarantee``) and is raised by ``poll``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from cdc.capture.confirmation import Flight
from cdc.columnar.placement import placed
from cdc.errors import LogError, RetryableError
from cdc.events.records import Block, Record, weight
from cdc.kafka.client import ENVELOPE_BYTES, open_client
from cdc.kafka.first_record_barrier import Produce, Proving
from cdc.kafka.outage import Outage
from cdc.kafka.security import PLAINTEXT, Security

_NOW: Final = 0
"""As a timestamp: when the client takes the record."""
_NEVER: Final = 1 << 63
"""Above every offset: what an unknown partition is expected to go on from."""
_TOO_LARGE: Final = (
    "raise max.message.bytes of the topic above message.max.bytes and batch.size of "
    "[kafka.producer], or lower those; then start capture again: nothing was confirmed past it"
)
_CLOCK: Final = (
    "set the clock of this machine, then start capture again: it is ahead of the brokers' by more "
    "than the topic's message.timestamp.after.max.ms"
)
_REASON_S: Final = 1.0
"""A client that takes no more records tells the reason sooner."""
_MEND: Final = (
    "fix the topic or the broker, then start capture again: nothing was confirmed past what was "
    "refused"
)


class _Parcel(NamedTuple):
    """What ``Producer.send`` was given."""

    records: Mapping[str, Sequence[Record | Block]]
    size: int
    flight: Flight


class Producer:
    """One producer a process. ``queue_bytes`` bounds what is handed over but not acknowledged."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, str | int | float | bool] | None = None,
        queue_bytes: int = 48 << 20,
        security: Security = PLAINTEXT,
    ) -> None:
        self._producer, self._max_bytes, self._login = open_client(
            bootstrap_servers, settings, self._on_error, security, self._on_statistics
        )
        self._proving = Proving(self._producer.produce)
        self._queue_bytes = queue_bytes
        self._bytes = 0
        self._error: LogError | None = None
        self.last_trouble = ""
        self._outage = Outage(bootstrap_servers)
        self._sent = self._acknowledged = 0
        """Acknowledgements that are expected in all, and those that came."""
        self.next_offsets: dict[str, dict[int, int]] = {}
        """By topic and partition, of the topics that the owner puts here with all partitions."""
        self.leading: set[str] = set()
        """Topics whose records have to be in Kafka before what is sent with and after them."""
        self._behind: deque[_Parcel] = deque()
        self._leading = 0
        """Records of these topics that are not acknowledged yet."""

    @property
    def largest_record(self) -> int:
        """What a record may weigh (``cdc.events.records.weight``), in bytes."""
        return self._max_bytes - ENVELOPE_BYTES

    @property
    def has_room(self) -> bool:
        """Whether more may be sent."""
        return self._bytes < self._queue_bytes

    @property
    def silent_since(self) -> str:
        """Since when Kafka acknowledges nothing of what waits for it; empty while it does."""
        return self._outage.since

    def send(
        self, records: Mapping[str, Sequence[Record | Block]], size: int, flight: Flight
    ) -> None:
        """Hand over records, by topic in order. ``flight.pending`` must be the number of
        acknowledgements they get (``Batch.awaited``); ``size`` is what they weigh, until all of
        them are acknowledged."""
        self._bytes += size
        self._sent += flight.pending
        try:
            if self._behind or not self.leading.isdisjoint(records):
                self._behind.append(_Parcel(records, size, flight))
                self._hand_over()
            else:
                self._send(records, size, flight)
        except KafkaException as error:
            raise self._not_taken(error.args[0]) from None

    def _hand_over(self) -> None:
        """What waits behind leading records, up to the next ones."""
        while self._behind and not self._leading:
            records, size, flight = self._behind.popleft()
            leading = {topic: records[topic] for topic in records if topic in self.leading}
            if not leading:
                self._send(records, size, flight)
                continue
            others = {topic: records[topic] for topic in records if topic not in leading}
            self._leading = sum(map(len, leading.values()))
            self._behind.appendleft(_Parcel(others, size, flight))
            self._send(leading, size, flight)

    def _send(
        self, records: Mapping[str, Sequence[Record | Block]], size: int, flight: Flight
    ) -> None:
        for topic, batch in records.items():
            delivered = self._delivered(topic, size, flight)
            produce = self._produce(topic)
            partitions = placed(batch, len(self.next_offsets.get(topic, ())))
            for record, partition in zip(batch, partitions, strict=True):
                if type(record) is Block:
                    self._send_block(topic, record, size, flight)
                    continue
                assert type(record) is dict
                self._refuse_oversized(topic, record)
                # By position, in the client's order: measured a third faster than by name. No
                # timestamp: the client's own.
                produce(
                    topic,
                    record["value"],
                    record["key"],
                    partition,
                    delivered,
                    None,
                    _NOW,
                    record.get("headers"),
                )

    def poll(self, timeout_s: float = 0) -> None:
        """Serve acknowledgements; raises ``LogError`` when Kafka refused a record for good."""
        self._serve(timeout_s)
        if self._error is None:
            try:
                self._proving.release()
                self._hand_over()
            except KafkaException as error:
                self._error = self._not_taken(error.args[0])
        if self._error is not None:
            raise self._error

    def flush(self, timeout_s: float) -> None:
        """Wait until every record is acknowledged; ``RetryableError`` when time runs out."""
        deadline = monotonic() + timeout_s
        while len(self._producer) or self._behind:
            self.poll(0.05)
            if monotonic() > deadline:
                raise RetryableError(
                    f"Kafka did not acknowledge {len(self._producer)} records in {timeout_s:g} s",
                    self.last_trouble or "check the brokers",
                )
        self.poll(0)

    def _send_block(self, topic: str, block: Block, size: int, flight: Flight) -> None:
        """Only the last record of each partition is reported: in a partition none is
        acknowledged before those ahead of it, and none after one that was refused."""
        reports: list[Callable[[Any, Any], None] | None] = [None] * len(block.values)
        for last, count in block.closing.items():
            reports[last] = self._delivered(topic, size, flight, count)
        rows = zip(block.values, block.keys, block.partitions, reports, strict=True)
        produce = self._produce(topic)
        for value, key, partition, delivered in rows:
            produce(topic, value, key, partition, delivered)

    def _produce(self, topic: str) -> Produce:
        offsets = self.next_offsets.get(topic)
        if offsets is None or self._proving.proven(topic, offsets):
            return self._producer.produce  # type: ignore[no-any-return]
        return self._proving.produce

    def _delivered(
        self, topic: str, size: int, flight: Flight, count: int = 1
    ) -> Callable[[Any, Any], None]:
        """What hears of a record, the last one of ``count`` in its partition."""
        offsets = self.next_offsets.get(topic)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._refused(error, message)
                return
            if offsets is not None:
                partition, offset = message.partition(), message.offset()
                if offset - count + 1 < offsets.get(partition, _NEVER):
                    self._misplaced(topic, partition, offset)
                    return
                offsets[partition] = offset + 1
            if topic in self.leading:
                self._leading -= 1
            flight.pending -= 1
            self._acknowledged += 1
            if not flight.pending:
                self._bytes -= size

        return delivered

    def _refuse_oversized(self, topic: str, record: Record) -> None:
        size = weight(record)
        if size > self.largest_record:
            raise LogError(
                f"a record of {size} bytes for topic {topic} is larger than "
                f"message.max.bytes = {self._max_bytes}",
                "raise message.max.bytes in [kafka.producer] and max.message.bytes of the "
                'topic, or set capture.oversized = "dead_letter"; then start capture again: it '
                "continues where it stopped",
            )

    def _refused(self, error: Any, message: Any) -> None:
        if self._error is None:
            self._error = LogError(
                f"Kafka refused a record for {message.topic()}[{message.partition()}]: "
                f"{error.str()}",
                _way_out(error),
            )

    def _serve(self, timeout_s: float) -> None:
        self._login.renew(self._producer)
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:  # what is fatal comes here, and to nobody's callback
            self._on_error(error.args[0])
        self._outage.look(self._sent, self._acknowledged, self.last_trouble, monotonic())

    def _not_taken(self, error: KafkaError) -> LogError:
        """The client itself refuses a record: for its size, or all of them after a fatal error,
        whose reason it then tells, a moment later."""
        deadline = monotonic() + _REASON_S
        self._serve(0)
        while self._error is None and error.code() == KafkaError._FATAL and monotonic() < deadline:
            self._serve(0.05)
        return self._error or LogError(
            f"Kafka's client does not accept a record: {error.str()}", _way_out(error)
        )

    def _misplaced(self, topic: str, partition: int, offset: int) -> None:
        if self._error is None:
            self._error = LogError(
                f"Kafka put a record at {topic}[{partition}], offset {offset}, which was not "
                "expected: the topic was recreated or has more partitions",
                "start capture again to see what to do; nothing past this record was confirmed",
            )

    def _on_statistics(self, document: str) -> None:
        """The client's own view of the topics it writes to, from metadata that it refreshes every
        few minutes and when a leader changes."""
        for topic, seen in json.loads(document).get("topics", {}).items():
            known = self.next_offsets.get(topic)
            count = sum(int(partition) >= 0 for partition in seen["partitions"])
            if known and count > len(known) and self._error is None:
                self._error = LogError(
                    f"topic {topic} has {count} partitions but had {len(known)} when capture "
                    "started: keys would move to other partitions and lose their order",
                    "start capture again to see what to do",
                )

    def _on_error(self, error: KafkaError) -> None:
        self.last_trouble = error.str()
        if error.fatal() and self._error is None:
            self._error = LogError(f"Kafka: {error.str()}", _way_out(error))


def _way_out(error: KafkaError) -> str:
    """What is fatal for the order of records has a code of its own, and quotes the reason."""
    for code, hint in (
        (KafkaError.MSG_SIZE_TOO_LARGE, _TOO_LARGE),
        (KafkaError.INVALID_TIMESTAMP, _CLOCK),
    ):
        if error.code() == code or KafkaError(code).str() in error.str():
            return hint
    return _MEND
