"""Where a stream begins: checked against what Kafka holds."""

from __future__ import annotations

from typing import NamedTuple

from cdc.errors import LogError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.partition_reader import lost


class Start(NamedTuple):
    """Where a stream begins, in every partition of its topics, and the oldest that Kafka holds."""

    begin: Offsets
    oldest: Offsets


def checked(broker: Broker, begin: Offsets) -> Start:
    """``begin`` with every partition that its topics have: what it does not name from 0.

    Raises ``LogError`` where Kafka does not hold it.
    """
    topics = list(begin)
    oldest, newest = broker.beginning_offsets(topics), broker.end_offsets(topics)
    found: Offsets = {}
    for topic, ends in newest.items():
        if gone := sorted(set(begin[topic]) - set(ends)):
            raise LogError(
                f"{topic} has {len(ends)} partitions but not {gone[0]}, the next one to read",
                "rebuild the views of this table: the topic was recreated",
            )
        of_topic = found[topic] = {}
        for partition, end in ends.items():
            at = of_topic[partition] = begin[topic].get(partition, 0)
            if at < oldest[topic][partition]:
                raise lost(topic, partition, at)
            if at > end:
                raise LogError(
                    f"{topic}-{partition} ends at offset {end}, before {at}, the next offset to "
                    "read",
                    "rebuild the views of this table: the topic was recreated or is an older copy",
                )
    return Start(found, oldest)


def earlier_by_one(start: Start) -> Offsets:
    """``start.begin``, one record earlier in one partition, if one has an earlier record.

    A query has no batch before there is a record, and asks for one until then.
    """
    found = {topic: dict(of_topic) for topic, of_topic in start.begin.items()}
    for topic, of_topic in found.items():
        for partition, at in of_topic.items():
            if at > start.oldest[topic][partition]:
                of_topic[partition] = at - 1
                return found
    return found
