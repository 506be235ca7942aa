"""The consumer groups of views, and the topics that views read."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.kafka.broker import Broker
from cdc.topics import table_topic, view_group
from tests.chaos.views import Kept
from tests.support.commands.deployment import Deployment
from views.parse.table_references import tables_read


def told_to_groups(deployment: Deployment, views: Sequence[Kept]) -> list[tuple[str, int, int]]:
    """The offsets above 0 that groups were told, with topic and partition."""
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


def ends(deployment: Deployment, views: Sequence[Kept]) -> dict[str, dict[int, int]]:
    """Where the topics of views end."""
    topics = {topic for view in views for topic in _topics(deployment, view)}
    with Broker(deployment.bootstrap) as broker:
        return broker.end_offsets(sorted(topics))


def _topics(deployment: Deployment, view: Kept) -> list[str]:
    tables = tables_read(view.name, view.sql)
    return [table_topic(deployment.name, one.schema, one.table) for one in tables]
