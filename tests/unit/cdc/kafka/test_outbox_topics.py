"""Topics of emitted events: which capture publishes to, and which the configuration has to name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from cdc.capture.topic_setup import Topics
from cdc.config import Config
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Record
from headwater.check.emit_topics import unnamed, unnamed_topics

MARKED = {"src.outbox.paid": {0: 7}, "src.outbox.item": {0: 1}, "src.public.t": {0: 2}}


def config(*topics: str) -> Config:
    return Config.model_validate(
        {
            "source": {"name": "src", "dsn": "postgresql://u@h/d", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": "localhost:9092"},
            "capture": {"emit_topics": list(topics)},
        }
    )


class Kafka:
    """It has each topic, and creates none; each holds a progress mark and nothing else."""

    def create_topics(self, _specs: list[Any]) -> list[str]:
        return []

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def end_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 1} for topic in topics}

    def beginning_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 0} for topic in topics}

    def read(self, _topic: str, partition: int, start: int, _end: int) -> Iterator[Record]:
        value = Mark(101, MARKED, "7", 1, "db", "slot").encode(0)
        yield Record(partition, start, 0, b"src", value, [])


class Producer:
    """What topics tell the producer."""

    def __init__(self) -> None:
        self.next_offsets: dict[str, dict[int, int]] = {}
        self.leading: set[str] = set()


def topics(config: Config) -> Topics:
    made = Topics(config, cast(Any, Kafka()), cast(Any, Producer()), lambda _topic, _ends: None)
    made._tables = {"src.outbox.item"}
    return made


def test_events_go_to_a_topic_that_the_configuration_names_and_to_none_other() -> None:
    made = topics(config("paid"))
    assert made.outbox("paid") == "src.outbox.paid"
    assert made.outbox("other") is None


def test_events_go_on_to_a_topic_that_the_mark_names_already() -> None:
    made = topics(config())
    made.partitions |= {topic: len(ends) for topic, ends in MARKED.items()}
    assert made.outbox("paid") == "src.outbox.paid"
    assert made.outbox("item") is None  # a table's
    assert made.outbox("other") is None


def test_a_topic_that_has_events_and_is_not_named_is_found() -> None:
    tables = {"src.outbox.item"}
    assert unnamed(config(), MARKED, tables) == ["paid"]
    assert unnamed(config("paid", "later"), MARKED, tables) == []
    assert unnamed(config(), MARKED, ()) == ["item", "paid"]


def test_check_names_the_setting_and_the_topics() -> None:
    broker = cast(Broker, Kafka())
    (found,) = unnamed_topics(config(), broker, {"src.outbox.item"})
    assert found.level == "error"
    assert "emitted to paid, which capture.emit_topics" in found.message
    assert found.hint == "Name them in capture.emit_topics, then run `headwater init`."
    assert list(unnamed_topics(config("paid"), broker, {"src.outbox.item"})) == []


def test_before_init_there_is_nothing_to_name() -> None:
    class Empty(Kafka):
        def partitions(self, _topics: list[str]) -> dict[str, int]:
            return {}

    assert list(unnamed_topics(config(), cast(Broker, Empty()), ())) == []
