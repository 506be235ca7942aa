"""The consumer groups of views, and the topics that views read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc.kafka.broker import Broker
from cdc.topics import table_topic, view_group
from tests.chaos.views.declarations import Kept
from tests.support.commands.deployment import Deployment
from views.parse.table_references import tables_read

Told = list[tuple[str, int, int]]
"""Topic, partition and the offset that a group reads next."""
Ends = Mapping[str, Mapping[int, int]]
"""Where topics end, by topic and partition."""


def told_to_groups(deployment: Deployment, views: Sequence[Kept]) -> Told:
    """The offsets above 0 that groups were told."""
    with Broker(deployment.bootstrap) as broker:
        return [
            (topic, partition, offset)
            for view in views
            for topic, told in broker.committed(
                view_group(view.name), _topics(deployment, view)
            ).items()
            for partition, offset in told.items()
            if offset > 0
        ]


def ends(deployment: Deployment, views: Sequence[Kept]) -> Ends:
    """Where the topics of views end."""
    topics = {topic for view in views for topic in _topics(deployment, view)}
    with Broker(deployment.bootstrap) as broker:
        return broker.end_offsets(sorted(topics))


def beyond(told: Told, before: Ends) -> bool:
    """Whether a group was told of records that were not there when topics ended at ``before``.

    Only these are in no state of that moment: a state database has records before groups are told
    of them, so that an apply which starts tells of what any copy of it has.
    """
    return any(offset > before[topic][partition] for topic, partition, offset in told)


def _topics(deployment: Deployment, view: Kept) -> list[str]:
    tables = tables_read(view.name, view.sql)
    return [table_topic(deployment.name, one.schema, one.table) for one in tables]
