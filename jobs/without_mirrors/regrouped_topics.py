"""Topics that got more partitions (``headwater topics add-partitions``), and streams that would
read across that.

A key may have changed its partition then. Partitions are read each at its own pace, and a store may
forget that a row was deleted: an old change of the row, read after its delete, would bring it back.
A view that is at the ends of its topics when they get more has nothing left of before.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.marks import stored_mark


def refuse_regrouped(broker: Broker, source: str, view: str, begin: Offsets) -> None:
    """Raise ``ViewError`` where a stream of ``view`` that begins at these next offsets would read
    across. What ``begin`` does not name counts from 0, as the oldest that Kafka holds does."""
    if (stored := stored_mark(broker, source)) is None:
        return
    regrouped = {topic: stored.mark.regrouped.get(topic, {}) for topic in begin}
    topics = [topic for topic, ends in regrouped.items() if ends]
    oldest = broker.beginning_offsets(topics) if topics else {}
    if place := across(regrouped, begin, oldest):
        raise ViewError(
            f"view {view}: {place} is from before its topic got more partitions: later changes of "
            "the same rows are in other partitions, and could be applied first",
            f"run `headwater view rebuild {view}`, or `headwater view create {view}` if it was "
            "never built",
        )


def across(regrouped: Mapping[str, Mapping[int, int]], begin: Offsets, oldest: Offsets) -> str:
    """The first place from which a stream would read across; empty if there is none. Pure."""
    for topic, of_topic in begin.items():
        for partition, end in sorted(regrouped.get(topic, {}).items()):
            at = max(of_topic.get(partition, 0), oldest.get(topic, {}).get(partition, 0))
            if at < end:
                return f"{topic}-{partition}-{at}"
    return ""
