"""How many keys of views wait as dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc.config import Config
from cdc.kafka.broker import Broker, Offsets
from cdc.lag.measure import PartitionLag
from cdc.topics import view_dead_letters_topic
from jobs.without_mirrors.dead_letters.topic import waiting

Parked = Mapping[tuple[str, str, int], int]
"""Keys that wait, by view, topic and partition: of rows of the view its own name and -1."""


class ParkedKeys:
    """Those of views without mirrors, by the partition they are of. A topic of them is read again
    when something was written to it. Rows of the view itself are of none."""

    def __init__(self, config: Config, broker: Broker, views: Sequence[str]) -> None:
        self._config, self._broker, self._views = config, broker, views
        self._ends: Offsets = {}
        self._found: Parked = {}

    def now(self) -> Parked:
        topics = {view_dead_letters_topic(view): view for view in self._views}
        ends = self._broker.end_offsets(list(self._broker.partitions(list(topics))))
        if ends != self._ends:
            found: dict[tuple[str, str, int], int] = {}
            for topic in ends:
                letters = waiting(self._config, self._broker, topics[topic])
                firsts = [*(of[0] for of in letters.keys.values()), *letters.keyless]
                for letter in [*firsts, *letters.rows.values()]:
                    place = topics[topic], letter.topic, letter.partition
                    found[place] = found.get(place, 0) + 1
            self._ends, self._found = ends, found
        return self._found


def waiting_keys(partitions: Sequence[PartitionLag], parked: Parked) -> list[int]:
    """How many keys, for each partition; rows of a view itself count with its first."""
    counts, seen = [], set[str]()
    for item in partitions:
        own = 0 if item.view in seen else parked.get((item.view, item.view, -1), 0)
        seen.add(item.view)
        counts.append(own + parked.get((item.view, item.topic, item.partition), 0))
    return counts


def by_view(parked: Parked) -> dict[str, int]:
    """How many keys of each view."""
    counts: dict[str, int] = {}
    for (view, _, _), count in parked.items():
        counts[view] = counts.get(view, 0) + count
    return counts
