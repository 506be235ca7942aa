"""How far views are behind Kafka and the source, partition by partition.

Views share topics, and often the offsets where they stand. So Kafka is asked once for each of them,
and for the first records of all partitions together: a look at ten views under load takes 0.2 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from cdc.errors import LogError
from cdc.kafka.broker import Broker, Commit, Place, Record, Stretch
from cdc.lag.measure import PartitionLag, commit_lsn, commit_ms
from cdc.registry.schemas import Read
from cdc.topics import view_group

Topics = Mapping[str, Sequence[str]]
"""Of each view, the topics that it reads."""
_FirstRecords = Mapping[tuple[Place, Stretch], Sequence[Record]]


class Moment(NamedTuple):
    """What a lag is measured against: the newest LSN of the source, the one up to which the last
    mark says that Kafka has everything, if there is one, and Unix time."""

    wal_lsn: int
    confirmed: int | None
    now_s: float


class _Standing(NamedTuple):
    """Where a view stands in a partition; ``oldest`` is the first offset that Kafka still has."""

    place: Place
    commit: Commit | None
    oldest: int
    end: int

    @property
    def stretch(self) -> Stretch:
        """What is not applied."""
        return max(self.oldest, self.commit.offset if self.commit else 0), self.end


def view_lags(
    broker: Broker,
    topics: Topics,
    moment: Moment,
    read: Read = orjson.loads,
    group: Callable[[str], str] = view_group,
) -> tuple[list[PartitionLag], dict[str, LogError]]:
    """One entry for every partition of every view, and why a view could not be measured: Kafka
    refuses something of it, it has a topic that does not exist, or one with a record that Headwater
    has not written. ``read`` tells what a value says, ``group`` in which consumer group a view's
    offsets are.

    Raises ``RetryableError`` when Kafka cannot be reached.
    """
    try:
        return _together(broker, topics, moment, read, group)
    except LogError as error:
        if len(topics) == 1:
            return [], dict.fromkeys(topics, error)
    found, errors = list[PartitionLag](), dict[str, LogError]()
    for view, own in topics.items():
        of_view, error_of = view_lags(broker, {view: own}, moment, read, group)
        found += of_view
        errors |= error_of
    return found, errors


def _together(
    broker: Broker, topics: Topics, moment: Moment, read: Read, group: Callable[[str], str]
) -> tuple[list[PartitionLag], dict[str, LogError]]:
    # In this order a view that works meanwhile is never ahead of the ends.
    commits = {view: broker.commits(group(view), own) for view, own in topics.items()}
    named = sorted({topic for own in topics.values() for topic in own})
    starts, ends = broker.beginning_offsets(named), broker.end_offsets(named)
    standings = {
        view: [
            _Standing(
                (topic, partition),
                _of_this_topic(commits[view], (topic, partition), end),
                starts[topic][partition],
                end,
            )
            for topic in own
            for partition, end in sorted(ends[topic].items())
        ]
        for view, own in topics.items()
    }
    first = _first_records(broker, (one for own in standings.values() for one in own))
    found, errors = list[PartitionLag](), dict[str, LogError]()
    for view, of_view in standings.items():
        try:
            found += [_lag(view, one, first, moment, read) for one in of_view]
        except LogError as error:
            errors[view] = error
    return found, errors


def _of_this_topic(commits: Mapping[Place, Commit], place: Place, end: int) -> Commit | None:
    """None also for one above the end: see ``cdc.lag.measure.of_these_topics``."""
    commit = commits.get(place)
    return None if commit is None or commit.offset > end else commit


def _first_records(broker: Broker, standings: Iterable[_Standing]) -> _FirstRecords:
    """What ``Broker.first_values`` finds: of each partition from one offset at a time, for so many
    turns as views stand at different ones."""
    found: dict[tuple[Place, Stretch], Sequence[Record]] = {}
    left = {(one.place, one.stretch) for one in standings if one.stretch[0] < one.end}
    while left:
        turn = dict(left)
        first = broker.first_values(turn)
        found |= {(place, turn[place]): records for place, records in first.items()}
        left -= turn.items()
    return found


def _lag(
    view: str, one: _Standing, first: _FirstRecords, moment: Moment, read: Read
) -> PartitionLag:
    waiting = first.get((one.place, one.stretch), ())
    (topic, partition), commit, now_s = one.place, one.commit, moment.now_s
    first_ms = commit_ms(waiting, read) if waiting else now_s * 1000
    reached = commit_lsn(topic, waiting[-1], read) if waiting else None
    reached = moment.confirmed if reached is None else reached
    return PartitionLag(
        view,
        topic,
        partition,
        commit.offset if commit else None,
        one.end,
        one.end - one.stretch[0] if waiting else 0,
        None if reached is None else max(0, moment.wal_lsn - reached),
        max(0.0, now_s - first_ms / 1000),
        max(0, one.oldest - commit.offset) if commit else 0,
        max(0.0, now_s - waiting[0].timestamp_ms / 1000) if waiting else 0.0,
        commit.at_s if commit else None,
    )
