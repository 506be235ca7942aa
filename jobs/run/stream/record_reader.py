"""Records of Kafka that are read once more, as folded rows: one by one, in the order given."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from cdc.errors import LogError
from cdc.kafka.event_reader import fetched
from cdc.kafka.partition_reader import PartitionReader
from jobs.batch.small_batch import fold
from jobs.run.process_parts import Parts


def read_again(parts: Parts, records: Sequence[str]) -> list[pa.Table]:
    """The rows of each record, named as ``topic-partition-offset``. Raises ``LogError`` for one
    that Kafka does not hold any more."""
    kafka, found = parts.config.kafka, []
    with closing(PartitionReader(kafka.bootstrap_servers, kafka)) as reader:
        for record in records:
            topic, partition, offset = record.rsplit("-", 2)
            begin = {topic: {int(partition): int(offset)}}
            end = {topic: {int(partition): int(offset) + 1}}
            read = reader.read(begin, end)
            if not read:
                raise LogError(
                    f"{record}: Kafka no longer holds this record",
                    "update its row in the source, which publishes it again; then discard the "
                    "parked events",
                )
            found.append(fold(fetched(parts.reader, read)))
    return found
