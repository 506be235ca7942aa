"""One topic, read as a member of a consumer group: its partitions are shared with other members.

Who calls says what is committed; nothing is by itself. A partition that the group takes away is
told before somebody else gets it. A group that has no offset of a partition yet reads that one from
its beginning: it was added to the topic since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from cdc.errors import HeadwaterError, LogError, RetryableError
from cdc.kafka.broker.client import note_of, noted
from cdc.kafka.login import Login
from cdc.kafka.partition_reader import ABSENT, AWAY, GONE, FetchedRecord
from cdc.kafka.range_reader import reading
from cdc.kafka.security import PLAINTEXT, Security

_AT_ONCE: Final = 200
_ANSWER_S: Final = 15.0
_ENDS_S: Final = 1.0
_ENDS_EVERY_S: Final = 10.0
_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "enable.partition.eof": False,
    "session.timeout.ms": 10_000,  # so long do others wait for the partitions of a killed member
    "heartbeat.interval.ms": 2_000,
    "partition.assignment.strategy": "range",
    "queued.min.messages": 1_000,
    "queued.max.messages.kbytes": 4_096,
}
_NOT_NOW: Final = (
    KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
)  # fmt: skip
_PASSING: Final = (
    *AWAY, *_NOT_NOW, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.REQUEST_TIMED_OUT,
    KafkaError._AUTHENTICATION, KafkaError._MAX_POLL_EXCEEDED,
)  # fmt: skip
"""The client goes on by itself, or with another password."""
_LOST: Final = (*GONE, KafkaError._LOG_TRUNCATION)
_DENIED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)  # fmt: skip


class Noted(NamedTuple):
    """The next offset to read, and one word that is kept with it for whoever looks at the group."""

    offset: int
    note: str = ""


class GroupReader:
    """``revoked`` is called while ``read`` or ``close`` runs with partitions that are about to go,
    or are gone already where its second argument is true. Use from one thread; close at the end."""

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        topic: str,
        revoked: Callable[[Collection[int], bool], None],
        security: Security = PLAINTEXT,
    ) -> None:
        self._topic, self._revoked = topic, revoked
        self._login = Login(security)
        self._paused = False
        self._ends_at, self._ends = 0.0, dict[int, int]()
        self._notes: dict[int, str] = {}
        self._generation = 0
        """Another one whenever partitions come or go."""
        self.assigned: frozenset[int] = frozenset()
        settings = {**reading(bootstrap_servers, security), **_SETTINGS, "group.id": group}
        self._client: Any = Consumer({**settings, "error_cb": self._login})
        self._client.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def read(self, timeout_s: float) -> list[FetchedRecord]:
        """Some records; nothing where nothing comes in time, also while Kafka does not answer.

        Raises ``LogError`` where Kafka does not hold an offset any more, ``RetryableError`` where
        the topic is not there, or the client may not read it or has no place in the group.
        """
        self._login.renew(self._client)
        found = []
        for message in self._consumed(timeout_s):
            partition = message.partition()
            if (error := message.error()) is not None:
                self._judge(error, partition if message.topic() is not None else None)
            elif partition in self.assigned:
                record = (message.offset(), message.key(), message.value())
                found.append(FetchedRecord(self._topic, partition, *record))
        return found

    def _consumed(self, timeout_s: float) -> list[Any]:
        """What there is, as soon as there is something. Partitions may come and go meanwhile: what
        was read of them before is read again by who has them then, and is not given."""
        try:
            first = self._client.consume(1, timeout_s)
            generation = self._generation
            more = self._client.consume(_AT_ONCE, 0) if first else []
        except KafkaException as exception:
            raise RetryableError(
                f"reading {self._topic}: {exception.args[0].str()}", "check that Kafka is running"
            ) from None
        if self._generation != generation:
            first = [one for one in first if one.error() is not None]
        return [*first, *more]

    def _judge(self, error: KafkaError, partition: int | None) -> None:
        """Raise what an error means, unless it passes by itself."""
        if error.code() in _PASSING:
            return
        at = self._topic if partition is None else f"{self._topic}-{partition}"
        kind: type[HeadwaterError] = RetryableError
        if error.code() in _LOST:
            kind, hint = LogError, (
                "let the reader begin anew under another name: retention removed records that it "
                "had not read, or the topic was recreated"
            )  # fmt: skip
        elif error.code() in _DENIED:
            hint = "grant this client access in Kafka's ACLs: docs/kafka.md#permissions"
        elif error.code() in ABSENT:
            hint = "run `headwater init`, or for a new table `headwater table add`"
        else:
            hint = "look at what else is in the consumer group, and at the log of the brokers"
        raise kind(f"reading {at}: {error.str()}", hint)

    def pause(self, is_paused: bool) -> None:
        """Fetch nothing for a while; or go on."""
        if is_paused == self._paused:
            return
        self._paused = is_paused
        self._hold(self.assigned)

    def commit(self, places: Mapping[int, Noted]) -> bool:
        """By partition; False while the group is about to share partitions anew, which
        the next ``read`` takes part in. Raises ``RetryableError`` where Kafka does not answer."""
        partitions = [
            TopicPartition(self._topic, partition, at, noted(note))
            for partition, (at, note) in places.items()
        ]
        try:
            self._client.commit(offsets=partitions, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in _NOT_NOW:
                return False
            if error.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE and any(
                place.note for place in places.values()
            ):  # a cluster that keeps less with an offset
                return self.commit({p: Noted(place.offset) for p, place in places.items()})
            raise RetryableError(
                f"committing offsets of {self._topic}: {error.args[0].str()}",
                "check that Kafka is running",
            ) from None
        return True

    def note(self, partition: int) -> str:
        """The word that was kept with the offset from which a partition is read."""
        return self._notes.get(partition, "")

    def behind(self, reached: Mapping[int, int]) -> int:
        """How many records the assigned partitions have from the next offsets ``reached`` on, by
        ends that were asked for in the last seconds: also while nothing is fetched."""
        if time.monotonic() >= self._ends_at:
            self._ends_at = time.monotonic() + _ENDS_EVERY_S
            self._ends = self._asked_ends()
        return sum(max(0, end - reached.get(p, end)) for p, end in self._ends.items())

    def _asked_ends(self) -> dict[int, int]:
        """As far as Kafka says them soon."""
        found: dict[int, int] = {}
        for partition in self.assigned:
            place = TopicPartition(self._topic, partition)
            try:
                _, found[partition] = self._client.get_watermark_offsets(place, _ENDS_S)
            except KafkaException:
                break
        return found

    def _hold(self, partitions: Collection[int]) -> None:
        places = [TopicPartition(self._topic, one) for one in partitions]
        if places:
            (self._client.pause if self._paused else self._client.resume)(places)

    def _on_assign(self, client: Any, partitions: list[Any]) -> None:
        committed = client.committed(partitions, _ANSWER_S) if partitions else []
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
            if place.offset < 0:
                place.offset = OFFSET_BEGINNING
        self._notes = {one.partition: note_of(one.metadata or "") for one in committed}
        client.assign(committed)
        self._generation += 1
        self.assigned = frozenset(place.partition for place in committed)
        if self._paused:
            self._hold(self.assigned)

    def _on_revoke(self, client: Any, partitions: list[Any]) -> None:
        self._revoked([place.partition for place in partitions], False)
        self._generation += 1
        self.assigned = frozenset()
        client.unassign()

    def _on_lost(self, client: Any, partitions: list[Any]) -> None:
        self._revoked([place.partition for place in partitions], True)
        self._generation += 1
        self.assigned = frozenset()
        client.unassign()
