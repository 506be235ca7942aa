"""What Kafka says of topics: what passes is asked again, and only what is not there is absent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from threading import Thread, active_count
from typing import Any

import pytest
from kafka import errors as kafka_errors

from cdc.errors import HeadwaterError, LogError, RetryableError
from cdc.kafka.broker import Broker, TopicSpec, connection
from cdc.kafka.broker.connection import Connection

NO_ERROR = kafka_errors.NoError
FACTOR = kafka_errors.InvalidReplicationFactorError
NO_CONTROLLER = RuntimeError("Failed to find active controller id!")


class Admin:
    """A client that is told what to say of topic ``t``, one answer after the other; the last one
    ever again. An exception is raised."""

    def __init__(self, *said: type[kafka_errors.KafkaError] | Exception, brokers: int = 1) -> None:
        self.said, self.brokers = list(said), brokers

    def _of_topic(self, **more: Any) -> dict[str, Any]:
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, Exception):
            raise said
        return {"name": "t", "error_code": said.errno, **more}

    def describe_topics(self, _names: Iterable[str]) -> list[dict[str, Any]]:
        topic = self._of_topic()
        return [topic | {"partitions": [] if topic["error_code"] else [{}, {}]}]

    def create_topics(self, _wanted: Any, raise_errors: bool) -> dict[str, Any]:
        assert not raise_errors
        return {"topics": [self._of_topic(error_message="so it is")]}

    def delete_topics(self, _names: Iterable[str], raise_errors: bool) -> dict[str, Any]:
        assert not raise_errors
        return {"topics": [self._of_topic()]}

    def wait_for_topics(self, _names: Iterable[str]) -> None:
        """They have leaders."""

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": id_} for id_ in range(self.brokers)]}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RETRY_TIMEOUT_S", 0.3)


def broker(admin: Admin) -> Broker:
    found = Broker("h:1")
    found._connection._admin = admin
    return found


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([NO_ERROR], {"t": 2}),
        ([kafka_errors.UnknownTopicOrPartitionError], {}),
        ([kafka_errors.InvalidTopicError], {}),
        ([kafka_errors.LeaderNotAvailableError, NO_ERROR], {"t": 2}),
        ([RuntimeError("Transport closed for writes"), NO_ERROR], {"t": 2}),
    ],
)
def test_only_a_topic_that_kafka_does_not_have_is_absent(
    said: list[Any], found: dict[str, int]
) -> None:
    assert broker(Admin(*said)).partitions(["t"]) == found


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (kafka_errors.LeaderNotAvailableError, RetryableError, "describing topics: t: "),
        (kafka_errors.TopicAuthorizationFailedError, LogError, "topics: t: .*. Grant this client"),
        (kafka_errors.InvalidRequestError, LogError, "describing topics: t: "),
        (NO_CONTROLLER, RetryableError, "describing topics: "),
    ],
)
def test_what_else_is_said_of_a_topic_is_an_error(
    said: Any, kind: type[HeadwaterError], text: str
) -> None:
    with pytest.raises(kind, match=rf"Kafka at h:1: .*{text}"):
        broker(Admin(said)).partitions(["t"])


def test_an_error_that_nobody_knows_stays_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        broker(Admin(RuntimeError("a bug"))).partitions(["t"])


def created(*said: Any, brokers: int = 1) -> list[str]:
    admin = Admin(kafka_errors.UnknownTopicOrPartitionError, *said, brokers=brokers)
    return broker(admin).create_topics([TopicSpec("t", 1, 3)])


@pytest.mark.parametrize("passing", [FACTOR, NO_CONTROLLER, kafka_errors.RequestTimedOutError])
def test_a_topic_is_created_when_brokers_have_come_back(passing: Any) -> None:
    assert created(passing, NO_ERROR) == ["t"]
    assert created(passing, kafka_errors.TopicAlreadyExistsError) == []


def test_more_replicas_than_brokers_are_a_mistake_and_brokers_that_are_away_pass() -> None:
    with pytest.raises(LogError, match=r"t: so it is\. Lower kafka\."):
        created(FACTOR, brokers=2)
    with pytest.raises(RetryableError, match=r"creating topics: t: so it is\. Check that the brok"):
        created(FACTOR, brokers=3)


@pytest.mark.parametrize("passing", [NO_CONTROLLER, kafka_errors.RequestTimedOutError])
def test_topics_that_are_gone_when_a_lost_answer_is_asked_for_again_are_deleted(
    passing: Any,
) -> None:
    admin = Admin(NO_ERROR, passing, kafka_errors.UnknownTopicOrPartitionError)
    broker(admin).delete_topics(["t"])
    assert len(admin.said) == 1
    with pytest.raises(LogError, match="deleting topics: t: "):
        broker(Admin(NO_ERROR, kafka_errors.TopicDeletionDisabledError)).delete_topics(["t"])


def test_a_client_that_cannot_be_opened_leaves_no_thread_and_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that takes connections and ends them, as one does that is starting: it is asked
    again and again."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.3)
    monkeypatch.setattr(connection, "why_refused", lambda *_: None)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        ending = Thread(target=ends_each, args=(server,), daemon=True)
        ending.start()
        held = Connection(f"127.0.0.1:{server.getsockname()[1]}")

        def fails() -> int:
            with pytest.raises(RetryableError):
                held.call("listing topics", lambda admin: admin.list_topics())
            with pytest.raises(RetryableError), held.reader("reading"):
                pass
            return len(os.listdir("/proc/self/fd"))

        before, threads = fails(), active_count()
        assert (fails(), fails(), active_count()) == (before, before, threads)
        server.shutdown(socket.SHUT_RDWR)
        ending.join()


def test_a_reader_of_a_former_password_serves_no_later_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    password = {"sasl_password": "before"}
    monkeypatch.setattr(connection, "options", lambda _: dict(password))
    held = Connection("localhost:1")
    opened: list[Reader] = []

    def opens(doing: str) -> Reader:  # noqa: ARG001
        opened.append(Reader())
        return opened[-1]

    monkeypatch.setattr(held, "_open_reader", opens)
    with held.reader("reading") as first:
        password["sasl_password"] = "after"
        with held.reader("reading") as second:
            pass
    assert (first.closed, second.closed) == (True, False)
    with held.reader("reading") as third:
        assert third is second
    assert opened == [first, second]


class Reader:
    """What the connection asks of a consumer."""

    closed = False

    def close(self) -> None:
        self.closed = True


def ends_each(server: socket.socket) -> None:
    """Take connections and end them, until no more come."""
    with suppress(OSError):
        while True:
            server.accept()[0].close()
