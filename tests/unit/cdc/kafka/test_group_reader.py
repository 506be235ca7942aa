"""What a member of a group makes of what its client gives: records, partitions that go, errors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from cdc.errors import HeadwaterError, LogError, RetryableError
from cdc.kafka import group_reader
from cdc.kafka.group_reader import GroupReader


class Message:
    """A record, or an error: of partition 0, or of none."""

    def __init__(self, offset: int = 0, error: int | None = None, topic: str | None = "t") -> None:
        self._offset, self._topic = offset, topic
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


class Client:
    """Gives what each call of ``consume`` is to give, and calls back in it as told."""

    def __init__(self, _: Any) -> None:
        self.steps: list[Callable[[], list[Message]]] = []
        self.callbacks: dict[str, Callable[[Any, list[TopicPartition]], None]] = {}
        self.given: list[int] = []

    def subscribe(self, _: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def consume(self, at_most: int, timeout_s: float) -> list[Message]:
        del timeout_s
        found = self.steps.pop(0)() if self.steps else []
        assert len(found) <= at_most
        return found

    def committed(self, partitions: list[TopicPartition], _: float) -> list[TopicPartition]:
        return [TopicPartition(one.topic, one.partition, 5) for one in partitions]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.given = [one.partition for one in partitions]

    def unassign(self) -> None:
        self.given = []

    def call(self, name: str) -> None:
        self.callbacks[name](self, [TopicPartition("t", 0)])


class Member:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(group_reader, "Consumer", Client)
        self.gone: list[tuple[list[int], bool]] = []
        self.reader = GroupReader("localhost:1", "g", "t", self._revoked)
        self.client: Client = self.reader._client

    def _revoked(self, partitions: Collection[int], is_lost: bool) -> None:
        self.gone.append((list(partitions), is_lost))

    def read(self, *steps: Callable[[], list[Message]]) -> list[int]:
        """Offsets of what a read gives."""
        self.client.steps = list(steps)
        found = [one.offset for one in self.reader.read(0.1)]
        assert self.client.steps == []
        return found

    def after(self, callback: str, *messages: Message) -> Callable[[], list[Message]]:
        def step() -> list[Message]:
            self.client.call(callback)
            return list(messages)

        return step


def gives(*messages: Message) -> Callable[[], list[Message]]:
    return lambda: list(messages)


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    return Member(monkeypatch)


def test_records_of_the_partitions_that_it_has_are_given_in_order(member: Member) -> None:
    first = member.after("on_assign", Message(5))
    assert member.read(first, gives(Message(6), Message(7))) == [5, 6, 7]
    assert member.read(gives(Message(8)), gives()) == [8]
    assert member.read(gives()) == []


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
def test_what_was_read_before_its_partition_went_is_not_given(
    member: Member, callback: str
) -> None:
    """Else who has the partition by then would find it read, and it would be read twice."""
    member.read(member.after("on_assign", Message(5)), gives())
    assert member.read(gives(Message(6)), member.after(callback, Message(7))) == []
    assert member.gone == [([0], callback == "on_lost")]
    assert member.read(member.after("on_assign", Message(6)), gives(Message(7))) == [6, 7]


def test_what_comes_with_partitions_that_came_is_given(member: Member) -> None:
    first = gives(Message(error=KafkaError._TRANSPORT, topic=None))
    assert member.read(first, member.after("on_assign", Message(5))) == [5]


@pytest.mark.parametrize(
    ("code", "topic", "kind", "said", "hint"),
    [
        (KafkaError._AUTO_OFFSET_RESET, "t", LogError, "reading t-0: ", "under another name"),
        (KafkaError.OFFSET_OUT_OF_RANGE, "t", LogError, "reading t-0: ", "under another name"),
        (KafkaError._LOG_TRUNCATION, "t", LogError, "reading t-0: ", "under another name"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "t", RetryableError, "reading t-0: ", "ACLs"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, None, RetryableError, "reading t: ", "ACLs"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "t", RetryableError, "reading t-0: ", "table add"),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, None, RetryableError, "reading t: ", "group"),
    ],
)
def test_an_error_says_what_is_to_be_done(
    member: Member, code: int, topic: str | None, kind: type[HeadwaterError], said: str, hint: str
) -> None:
    with pytest.raises(kind, match=said) as caught:
        member.read(member.after("on_assign", Message(error=code, topic=topic)), gives())
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("code", "topic"),
    [
        (KafkaError._ALL_BROKERS_DOWN, None),
        (KafkaError._TRANSPORT, "t"),
        (KafkaError._MAX_POLL_EXCEEDED, None),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, None),
        (KafkaError.REBALANCE_IN_PROGRESS, None),
    ],
)
def test_what_the_client_overcomes_by_itself_is_no_fault(
    member: Member, code: int, topic: str | None
) -> None:
    first = member.after("on_assign", Message(error=code, topic=topic))
    assert member.read(first, gives(Message(5))) == [5]
