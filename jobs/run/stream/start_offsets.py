"""Where a stream begins: checked against what Kafka holds."""

from __future__ import annotations

from cdc.errors import LogError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.partition_reader import lost


def checked(broker: Broker, begin: Offsets) -> Offsets:
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
    return found
