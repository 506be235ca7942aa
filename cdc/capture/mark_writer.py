"""Progress marks: when one is written, and that PostgreSQL is told only what a mark says.

A mark that is on its way is never overtaken by one that says less: the slot would then stand
ahead of what Kafka says of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, time, time_ns
from typing import Any, Final

from cdc.capture.confirmation import Flight, Progress
from cdc.capture.partition_floors import Floors
from cdc.config import Config
from cdc.errors import RetryableError
from cdc.events.heartbeat import Pulse
from cdc.events.mark_records import mark_records
from cdc.events.marks import Mark
from cdc.kafka.producer import Producer
from cdc.source.slot import SourceIdentity
from cdc.topics import progress_topic

_REST: Final = 10
"""A mark of a hundred thousand partitions takes a while: it is written so many times less often."""


class MarkWriter:
    """Writes the marks of one run of capture."""

    def __init__(
        self, config: Config, identity: SourceIdentity, producer: Producer, pulse: Pulse
    ) -> None:
        self._source, self._form = config.source, config.form.recorded
        self._every_s = config.capture.progress_ms / 1000
        self._longest_s = config.capture.reconnect_s
        self.identity = identity
        self.floors = Floors()
        self.topic_ids: dict[str, str] = {}
        self.regrouped: Mapping[str, Mapping[int, int]] = {}
        self.routed: Mapping[str, Mapping[str, Any]] = {}
        self.turn = 0
        self._pulse = pulse
        self._producer = producer
        self._mark: tuple[Flight, int] | None = None
        self._due = 0.0
        self.acknowledged_s: float | None = None
        """When Kafka last acknowledged a mark, since 1970."""

    @property
    def waiting(self) -> bool:
        """Whether a mark is not acknowledged yet."""
        return self._mark is not None

    def record(self, progress: Progress, *, now: bool = False) -> None:
        """Write a mark when the durable LSN has moved; confirm what the last one says.

        A mark is written at most every ``progress_ms``, or ``now``.
        """
        durable = progress.settle()
        if self._mark is not None and self._mark[0].pending == 0:
            progress.recorded(self._mark[1])
            self._mark, self.acknowledged_s = None, time()
        due = now or monotonic() >= self._due
        if self._mark is None and durable > progress.confirmed and due:
            self._due = monotonic() + self._every_s
            self._write(durable)

    def record_topics(self, progress: Progress, meanwhile: Callable[[], None]) -> None:
        """Write a mark that names the topics of this moment, and wait until Kafka has it.

        What is published to a topic that no mark names would be published again after a crash.
        Raises ``RetryableError`` when Kafka does not take it.
        """
        self._write(self._mark[1] if self._mark else progress.confirmed)
        deadline = monotonic() + self._longest_s
        while self._mark is not None and self._mark[0].pending:
            self._producer.poll(0.01)
            meanwhile()
            if monotonic() > deadline:
                raise RetryableError(
                    "Kafka did not acknowledge a progress record", "check the brokers"
                )

    def mark(self, progress: Progress) -> Mark:
        """What Kafka is known to say now."""
        return self._mark_at(progress.confirmed)

    def _mark_at(self, confirmed: int) -> Mark:
        identity = self.identity
        return Mark(
            confirmed,
            {topic: dict(ends) for topic, ends in self._producer.next_offsets.items()},
            identity.system_id,
            identity.timeline,
            identity.database,
            self._source.slot_name,
            self._pulse.settle(confirmed),
            self.floors.at(confirmed - 1, self._producer.next_offsets),
            dict(self.topic_ids),
            self.regrouped,
            self._form,
            dict(self.routed),
        )

    def _write(self, confirmed: int) -> None:
        began = monotonic()
        now_ms, limit = time_ns() // 1_000_000, self._producer.largest_record
        mark, name = self._mark_at(confirmed), self._source.name
        records = mark_records(mark, name, now_ms, limit, self.turn)
        self.turn = 1 - self.turn
        flight = Flight(len(records), confirmed)
        self._producer.send({progress_topic(name): records}, 0, flight)
        self._mark = flight, confirmed
        self._due = max(self._due, began + _REST * (monotonic() - began))
