"""One topic, read as a member of a consumer group: its partitions are shared with other members.

Who calls says what is committed; nothing is by itself. A partition that the group takes away is
told before somebody else gets it. A group that has no offset of a partition yet reads that one from
its begin: it was added to the topic since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from cdc.errors import LogError, RetryableError
from cdc.kafka.login import Login
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import consumed, reading
from cdc.kafka.security import PLAINTEXT, Security

_AT_ONCE: Final = 200
_ANSWER_S: Final = 15.0
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

        Raises ``LogError`` where Kafka does not hold an offset, or the topic is not there,
        ``RetryableError`` where the group's offsets cannot be read.
        """
        self._login.renew(self._client)
        found = []
        try:
            messages = consumed(self._client, _AT_ONCE, timeout_s)
        except KafkaException as exception:
            raise RetryableError(
                f"reading {self._topic}: {exception.args[0].str()}", "check that Kafka is running"
            ) from None
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if (error := message.error()) is None:
                record = (self._topic, partition, offset, message.key(), message.value())
                found.append(FetchedRecord(*record))
            elif message.topic() is not None and not error.retriable():
                raise LogError(
                    f"reading {self._topic}-{partition}: {error.str()}",
                    "let the reader begin anew under another name: retention removed records that "
                    "it had not read, or the topic was recreated",
                )
        return found

    def pause(self, is_paused: bool) -> None:
        """Fetch nothing for a while; or go on."""
        if is_paused == self._paused:
            return
        self._paused = is_paused
        self._hold(self.assigned)

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """The next offsets to read; False while the group is about to share partitions anew, which
        the next ``read`` takes part in. Raises ``RetryableError`` where Kafka does not answer."""
        partitions = [TopicPartition(self._topic, p, at) for p, at in offsets.items()]
        try:
            self._client.commit(offsets=partitions, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in _NOT_NOW:
                return False
            raise RetryableError(
                f"committing offsets of {self._topic}: {error.args[0].str()}",
                "check that Kafka is running",
            ) from None
        return True

    def ends(self) -> dict[int, int]:
        """Where the assigned partitions end, as far as is known from what was fetched."""
        found = {}
        for partition in self.assigned:
            place = TopicPartition(self._topic, partition)
            _, end = self._client.get_watermark_offsets(place, cached=True)
            if end >= 0:
                found[partition] = end
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
        client.assign(committed)
        self.assigned = frozenset(place.partition for place in committed)
        if self._paused:
            self._hold(self.assigned)

    def _on_revoke(self, client: Any, partitions: list[Any]) -> None:
        self._revoked([place.partition for place in partitions], False)
        self.assigned = frozenset()
        client.unassign()

    def _on_lost(self, client: Any, partitions: list[Any]) -> None:
        self._revoked([place.partition for place in partitions], True)
        self.assigned = frozenset()
        client.unassign()
