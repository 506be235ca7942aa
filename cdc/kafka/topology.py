"""The topics that a source needs in Kafka, and how each is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdc.config import Config, Kafka
from cdc.kafka.broker import TopicSpec
from cdc.source.selection import Table
from cdc.topics import (
    dead_letters_topic,
    message_topic,
    progress_topic,
    schemas_topic,
)

_COMPACTED: Final = {
    "cleanup.policy": "compact",
    # The open segment is never compacted: a small one keeps the topic quick to read whole.
    "segment.bytes": str(16 << 20),
}
UNTIL_DELETED: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""Of topics that wait for a person to see to them."""


def event_settings(kafka: Kafka) -> dict[str, str]:
    """Of topics of events, which are not compacted, whatever the cluster's default: a compacted one
    takes no record without a key."""
    return {"cleanup.policy": "delete", **kafka.topic}


def topic_specs(config: Config, tables: Sequence[Table]) -> list[TopicSpec]:
    """The topics of ``tables``, of logical messages, of table versions and of progress."""
    source, kafka = config.source.name, config.kafka
    names = config.source.topics((table.schema, table.name) for table in tables)
    return [
        *(
            TopicSpec(name, kafka.partitions, kafka.replication_factor, event_settings(kafka))
            for name in (*names, message_topic(source))
        ),
        *(
            TopicSpec(name, 1, kafka.replication_factor, _COMPACTED)
            for name in (schemas_topic(source), progress_topic(source))
        ),
    ]


def all_specs(config: Config, tables: Sequence[Table]) -> list[TopicSpec]:
    """What ``headwater init`` makes: these, and the topic of records that are too large."""
    return [*topic_specs(config, tables), *dead_letters_specs(config)]


def dead_letters_specs(config: Config) -> list[TopicSpec]:
    """The topic of records that are too large, if they go to one."""
    if config.capture.oversized == "stop":
        return []
    kafka = config.kafka
    settings = {**kafka.topic, **UNTIL_DELETED}
    return [
        TopicSpec(dead_letters_topic(config.source.name), 1, kafka.replication_factor, settings)
    ]
