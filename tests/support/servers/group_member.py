"""A consumer that has joined a group, by librdkafka: kafka-python's may never be done with it when
it is polled for short whiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from tests.support.waiting import wait_until


@contextmanager
def member_of(group: str, topic: str, bootstrap: str) -> Iterator[Consumer]:
    """A member, with partitions of the topic; whoever closes it before has it leave the group."""
    joined = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
    })  # fmt: skip
    joined.subscribe([topic])
    try:
        wait_until(lambda: joined.poll(0.1) or joined.assignment(), "a member of the group")
        yield joined
    finally:
        joined.close()
