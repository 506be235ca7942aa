"""Topics made and deleted, and what Kafka says of each: the client raises none of that itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource

from cdc.errors import LogError, RetryableError
from cdc.kafka.broker.connection import Connection

_KNOWN_S, _POLL_S = 30.0, 0.1
_NO_IDS: Final = ("None", "00000000-0000-0000-0000-000000000000")


class TopicSpec(NamedTuple):
    """A topic as it should be created; -1 leaves the replication factor to the cluster."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = {}


def create(connection: Connection, specs: Sequence[TopicSpec]) -> list[str]:
    """Create topics and wait for their leaders; the names of those that nobody else made first."""
    wanted = {
        spec.name: {
            "num_partitions": spec.partitions,
            "replication_factor": spec.replication_factor,
            "configs": dict(spec.config),
        }
        for spec in specs
    }
    created: list[str] = []

    def ask(admin: Any) -> None:
        answer = admin.create_topics(wanted, raise_errors=False)["topics"]
        # It may exist: another process was faster, or an answer was lost and asked for again.
        for topic in accepted(answer, kafka_errors.TopicAlreadyExistsError):
            created.append(topic["name"])

    try:
        connection.call("creating topics", ask)
    except RetryableError as error:
        if isinstance(error.__cause__, kafka_errors.InvalidReplicationFactorError):
            _refuse_factor(connection, max(spec.replication_factor for spec in specs), error)
        raise
    connection.call("waiting for new topics", lambda admin: admin.wait_for_topics(list(wanted)))
    return created


def _refuse_factor(connection: Connection, factor: int, error: RetryableError) -> None:
    """Raise ``LogError`` where a cluster has fewer brokers, those counted that are away: of one
    that has enough it is said while they start."""
    described = connection.call("counting the brokers", lambda admin: admin.describe_cluster())
    if factor < 0:
        settings = connection.call("reading a broker's settings", default_settings)
        factor = int(settings["default.replication.factor"]["value"])
    if (brokers := len(described["brokers"])) < factor:
        raise LogError(
            error.message,
            f"lower kafka.replication_factor, or start more brokers: the cluster has {brokers}",
        ) from error.__cause__


def add_partitions(connection: Connection, topic: str, count: int) -> None:
    """Give a topic ``count`` partitions, and wait until all brokers that answer know them. Raises
    ``RetryableError`` when that takes long; to ask again is safe."""
    deadline = time.monotonic() + _KNOWN_S
    if partitions(connection, [topic])[topic] < count:
        connection.call(
            f"adding partitions to {topic}", lambda admin: admin.create_partitions({topic: count})
        )
    while partitions(connection, [topic])[topic] < count:
        if time.monotonic() > deadline:
            raise RetryableError(
                f"Kafka does not show the new partitions of {topic}", "run this again"
            )
        time.sleep(_POLL_S)
    connection.call("waiting for partitions", lambda admin: admin.wait_for_topics([topic]))


def delete(connection: Connection, topics: Sequence[str]) -> None:
    """Delete topics, which may be gone by now: an answer may be lost and asked for again."""

    def ask(admin: Any) -> None:
        answer = admin.delete_topics(topics, raise_errors=False)["topics"]
        list(accepted(answer, kafka_errors.UnknownTopicOrPartitionError))

    connection.call("deleting topics", ask)


def partitions(connection: Connection, topics: Sequence[str]) -> dict[str, int]:
    """Number of partitions of each topic that exists."""
    return {topic["name"]: len(topic["partitions"]) for topic in _described(connection, topics)}


def ids(connection: Connection, topics: Sequence[str]) -> dict[str, str]:
    """Kafka's id of each topic that exists. A topic that is deleted and made anew has another one;
    brokers before Kafka 2.8 give none."""
    found = {topic["name"]: str(topic["topic_id"]) for topic in _described(connection, topics)}
    return {topic: id_ for topic, id_ in found.items() if id_ not in _NO_IDS}


def _described(connection: Connection, topics: Sequence[str]) -> list[Mapping[str, Any]]:
    def ask(admin: Any) -> list[Mapping[str, Any]]:
        answer = accepted(
            admin.describe_topics(list(topics)),
            kafka_errors.UnknownTopicOrPartitionError,
            kafka_errors.InvalidTopicError,  # no topic can be called so
        )
        return list(answer)

    return connection.call("describing topics", ask)


def default_settings(admin: Any) -> Any:
    """What topics have that say nothing else: the settings of a broker."""
    broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    asked = [ConfigResource("broker", broker)]
    return admin.describe_configs(asked, config_filter="all")["broker"][broker]


def accepted(
    topics: Iterable[Mapping[str, Any]], *passed_over: type[kafka_errors.KafkaError]
) -> Iterator[Mapping[str, Any]]:
    """The topics of an answer that have no error.

    Then raises the first error that is not to be passed over; its description is the topic and
    Kafka's own reason, if it gave one.
    """
    refused = []
    for topic in topics:
        kind = kafka_errors.for_code(topic["error_code"])
        if kind is kafka_errors.NoError:
            yield topic
        elif kind not in passed_over:
            refused.append((topic, kind()))
    for topic, error in refused:
        reason = topic.get("error_message") or getattr(error, "description", type(error).__name__)
        error.description = f"{topic['name']}: {reason}"
        raise error
