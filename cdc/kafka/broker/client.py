"""Topics, offsets and bounded reads of a Kafka cluster."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import OffsetSpec
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource
from kafka.structs import OffsetAndMetadata, TopicPartition

from cdc.errors import LogError
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import groups as consumer_groups
from cdc.kafka.broker import reads
from cdc.kafka.broker.connection import Connection
from cdc.kafka.broker.reads import Place, Record, Stretch
from cdc.kafka.broker.topics import (
    TopicSpec,
    add_partitions,
    create,
    default_settings,
    delete,
    ids,
    partitions,
)
from cdc.kafka.security import PLAINTEXT, Security

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

_AT = "@"
"""In the metadata of a committed offset, before the time of the commit in ms since 1970."""


class Commit(NamedTuple):
    """A committed offset, and when it was, in seconds since 1970; None if that is not known.
    ``note`` is the word that was kept with it."""

    offset: int
    at_s: float | None
    note: str = ""


class Broker:
    """A Kafka cluster, connected to at the first call. Use from one thread; close at the end.

    ``reader`` is that of ``events``, None where these are in the default form.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security = PLAINTEXT,
        reader: EventReader | None = None,
    ) -> None:
        self._connection, self._reader = Connection(bootstrap_servers, security), reader

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release connections. The next call would connect again."""
        self._connection.close()

    def create_topics(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Create the topics that do not exist and wait for their leaders; their names.

        Those that exist are left as they are: see ``different_partitions``. Raises ``LogError``
        with Kafka's reason when it refuses one.
        """
        existing = self.partitions([spec.name for spec in specs])
        missing = {spec.name: spec for spec in specs if spec.name not in existing}
        return create(self._connection, list(missing.values())) if missing else []

    def add_partitions(self, topic: str, count: int) -> None:
        """Give a topic so many partitions, and wait until they are known."""
        add_partitions(self._connection, topic, count)

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete topics; those that do not exist are passed over."""
        if existing := list(self.partitions(topics)):
            delete(self._connection, existing)

    def existing_groups(self, groups: Collection[str]) -> list[str]:
        """Those of some consumer groups that there are."""
        return consumer_groups.existing_groups(self._connection, groups)

    def groups_of(self, prefix: str) -> list[str]:
        """All consumer groups whose names begin so."""
        return consumer_groups.groups_of(self._connection, prefix)

    def active_groups(self, groups: Collection[str]) -> list[str]:
        """Those of some consumer groups that have members."""
        return consumer_groups.active_groups(self._connection, groups)

    def delete_groups(self, groups: Sequence[str]) -> None:
        """Delete consumer groups with what was committed to them; those that do not exist are
        passed over. Raises ``LogError`` for one that has members."""
        if existing := self.existing_groups(groups):
            consumer_groups.delete_groups(self._connection, existing)

    def group_topics(self, groups: Collection[str]) -> dict[str, list[str]]:
        """The topics of which some consumer groups hold offsets; without groups that hold none."""
        return consumer_groups.topics_of(self._connection, groups)

    def leave_group(self, group: str, is_own: Callable[[str], bool]) -> bool:
        """Delete what a consumer group holds of own topics, and the group where it holds nothing
        else; whether it does. Raises as ``delete_groups``."""
        return consumer_groups.leave(self._connection, group, is_own)

    def topics(self, prefix: str) -> list[str]:
        """The names of all topics that begin so."""
        names = self._connection.call("listing topics", lambda admin: admin.list_topics())
        return sorted(name for name in names if name.startswith(prefix))

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """Number of partitions of each topic that exists."""
        return partitions(self._connection, topics) if topics else {}

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Kafka's id of each topic that exists: one that was recreated has another."""
        return ids(self._connection, topics) if topics else {}

    def topic_config(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Every setting in effect for each topic, also those Kafka's defaults decide."""
        resources = [ConfigResource("topic", topic) for topic in topics]
        if not resources:
            return {}
        described = self._connection.call(
            "reading topic settings",
            lambda admin: admin.describe_configs(resources, config_filter="all"),
        )
        return {
            topic: {name: str(setting["value"]) for name, setting in settings.items()}
            for topic, settings in described.get("topic", {}).items()
        }

    def default_config(self) -> dict[str, str]:
        """Every setting of a broker: what topics have that say nothing else."""
        settings = self._connection.call("reading a broker's settings", default_settings)
        return {name: str(setting["value"]) for name, setting in settings.items()}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        """The offset after the last record of every partition. The topics must exist."""
        return self._offsets(topics, OffsetSpec.LATEST)

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
        """The offset of the oldest record that is still kept, for every partition."""
        return self._offsets(topics, OffsetSpec.EARLIEST)

    def offsets_since(self, topics: Sequence[str], timestamp_ms: int) -> Offsets:
        """The offset of the first record that is not older, for every partition; its end where
        there is none."""
        ends = self.end_offsets(topics)
        found = self._offsets(topics, timestamp_ms)
        return {
            topic: {
                partition: at if (at := found[topic][partition]) >= 0 else end
                for partition, end in of_topic.items()
            }
            for topic, of_topic in ends.items()
        }

    def _offsets(self, topics: Sequence[str], spec: Any) -> Offsets:
        counts = self.partitions(topics)
        if absent := [topic for topic in topics if topic not in counts]:
            raise LogError(
                f"Kafka at {self._connection.address} has no topic {', '.join(sorted(absent))}",
                "run `headwater init` if it has not run, and check source.name; for a new "
                "table in source.tables run `headwater table add`, for a deleted topic "
                "`headwater init --again`",
            )
        wanted = {TopicPartition(t, p): spec for t in topics for p in range(counts[t])}
        if not wanted:
            return {}
        found = self._connection.call(
            "reading offsets", lambda admin: admin.list_partition_offsets(wanted)
        )
        return _by_topic((tp.topic, tp.partition, at.offset) for tp, at in found.items())

    def committed(self, group: str, topics: Sequence[str]) -> Offsets:
        """Offsets committed to a group, of these topics; what was never committed is absent."""
        return _by_topic((*of, at.offset) for of, at in self._committed(group, topics))

    def commits(self, group: str, topics: Sequence[str]) -> dict[tuple[str, int], Commit]:
        """The same by topic and partition, with the time and the note of each commit."""
        return {
            of: Commit(at.offset, _committed_at(at.metadata or ""), note_of(at.metadata or ""))
            for of, at in self._committed(group, topics)
        }

    def reached(self, group: str, topics: Sequence[str], note: str) -> Offsets:
        """How far a group ever was of what was committed with ``note``; the rest is absent."""
        found = [
            (of, at.offset, (at.metadata or "").split(" "))
            for of, at in self._committed(group, topics)
        ]
        return _by_topic(
            (*of, max(offset, *(int(word) for word in words[1:] if word.isdecimal()), 0))
            for of, offset, words in found
            if words[0] == note
        )

    def _committed(self, group: str, topics: Sequence[str]) -> list[tuple[tuple[str, int], Any]]:
        found = self._connection.call(
            f"reading offsets of group {group}", lambda admin: admin.list_group_offsets(group)
        )
        return [
            ((tp.topic, tp.partition), at)
            for tp, at in found.get(group, {}).items()
            if tp.topic in topics and at.offset >= 0
        ]

    def commit_group(
        self, group: str, offsets: Offsets, note: str = "", reached: Offsets | None = None
    ) -> None:
        """Commit offsets to a group without being a member of it; ``note``, one word, is kept with
        them, and the time. A group that goes back was at ``reached`` before."""
        wanted = {
            TopicPartition(topic, partition): OffsetAndMetadata(
                offset, noted(note, offset, (reached or {}).get(topic, {}).get(partition, 0)), -1
            )
            for topic, of_topic in offsets.items()
            for partition, offset in of_topic.items()
        }

        def commit(admin: Any) -> None:
            for tp, error in admin.alter_group_offsets(group, wanted).items():
                if error is not kafka_errors.NoError:
                    fault = error()
                    fault.description = f"{tp.topic}-{tp.partition}: {fault.description}"
                    raise fault

        self._connection.call(f"committing offsets of group {group}", commit)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """The records at offsets from ``start`` up to, not including, ``end``.

        Offsets that hold no record (compacted away, transaction markers) are passed over. Raises
        ``LogError`` when ``start`` is no longer in the log, ``RetryableError`` when reading gets
        no further for ``reads.STALL_TIMEOUT_S``.
        """
        return reads.read(self._connection, (topic, partition), (start, end))

    def know(self, snapshots: Mapping[str, tuple[int, str]]) -> None:
        """What ``events`` are compared with: the LSN and the snapshot, by topic
        (``EventReader.know``)."""
        if self._reader is not None:
            self._reader.know(snapshots)

    def events(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """As ``read``, of a table's topic, in the default form. Of one in another form tombstones
        are left out: nothing says of which version their keys are."""
        records = self.read(topic, partition, start, end)
        if (reader := self._reader) is None:
            yield from records
            return
        for one in records:
            if one.value is not None:
                ((key, value, _),) = reader.raw(topic, [(one.key, one.value, one.offset)])
                yield one._replace(key=key, value=value)

    def first_values(self, wanted: Mapping[Place, Stretch]) -> dict[Place, list[Record]]:
        """Of each stretch that holds a record the first one, and with tombstones in front all up to
        one that has a value. All partitions are read at once; errors are those of ``read``."""
        return reads.first_values(self._connection, wanted)


def noted(note: str, offset: int = 0, reached: int = 0) -> str:
    """``NOTE [REACHED] @MILLISECONDS``: what is kept with a committed offset."""
    words = [note, str(reached)] if note and reached > offset else [note]
    return " ".join([*words, f"{_AT}{time.time_ns() // 1_000_000}"])


def _committed_at(metadata: str) -> float | None:
    last = metadata.rpartition(_AT)[2]
    return int(last) / 1000 if _AT in metadata and last.isdecimal() else None


def note_of(metadata: str) -> str:
    """The word that ``noted`` has kept."""
    first = metadata.partition(" ")[0]
    return "" if first.startswith(_AT) else first


def _by_topic(entries: Iterable[tuple[str, int, int]]) -> Offsets:
    offsets: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for topic, partition, offset in sorted(entries):
        offsets[topic][partition] = offset
    return dict(offsets)
