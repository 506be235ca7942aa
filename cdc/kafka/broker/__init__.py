"""Kafka through kafka-python: topics, offsets, and reading bounded stretches of a log.

The only module that imports kafka-python. It never joins a group and never waits for records that
are not there yet: every read has an end that is known before it starts. Producing is
``cdc.kafka.producer``. An offset here always means "next to read", as in Kafka.

Errors: ``RetryableError`` when Kafka cannot be reached or has no leader or coordinator at the
moment, ``LogError`` when it refuses. Both name the address, what was being done and what to do.
"""

from cdc.kafka.broker.client import Broker, Commit, Offsets
from cdc.kafka.broker.logs import different_partitions, last_record, read_compacted, windows_back
from cdc.kafka.broker.reads import Place, Record, Stretch
from cdc.kafka.broker.topics import TopicSpec

__all__ = [
    "Broker",
    "Commit",
    "Offsets",
    "Place",
    "Record",
    "Stretch",
    "TopicSpec",
    "different_partitions",
    "last_record",
    "read_compacted",
    "windows_back",
]
