"""The newest progress mark of a source."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.events.mark_records import StoredMark, newest_of
from cdc.kafka.broker import Broker, Record, windows_back
from cdc.topics import progress_topic


def newest_mark(broker: Broker, source: str) -> StoredMark | None:
    """The newest whole mark, None where capture may not start: ``init`` was not run, or is not
    done. Raises ``LogError`` when the topic is not there, or holds something else."""
    topic = progress_topic(source)
    return newest_of(_backwards(broker, topic), topic)


def _backwards(broker: Broker, topic: str) -> Iterator[Record]:
    end = broker.end_offsets([topic])[topic][0]
    floor = broker.beginning_offsets([topic])[topic][0]
    for start, stop in windows_back(floor, end):
        yield from reversed(list(broker.read(topic, 0, start, stop)))
