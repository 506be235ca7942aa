"""What ``headwater uninstall`` finds of a source in Kafka, and whether it is this database's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cdc.errors import LogError, sentence
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.kafka.marks import refuse_other_database
from cdc.source.slot import SourceIdentity
from cdc.topics import (
    message_topic,
    outbox_topic,
    progress_topic,
    row_alert_group,
    signal_group,
    transaction_topic,
    view_dead_letters_topic,
    view_group,
)


@dataclass(frozen=True, slots=True)
class Found:
    """``topics``, the progress topic last, and ``groups`` are of the source and of the views that
    were built. ``foreign`` topics have the source's name before them, and are not known to be
    Headwater's. ``unbuilt_topics`` and ``unbuilt_groups`` have the names of views that are declared
    and were not built: they are somebody else's, or of a state that is elsewhere. Or a view of
    another source has the same name, and its offsets are in the group, too."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    foreign: tuple[str, ...]
    unbuilt_topics: tuple[str, ...]
    unbuilt_groups: tuple[str, ...]


def found_in_kafka(
    broker: Broker,
    source: str,
    mark: Mark | None,
    tables: Collection[str],
    views: tuple[Collection[str], Collection[str]],
) -> Found:
    """``tables`` are topics of tables; ``views`` those that were built, and those that were not.
    Groups of alerts on rows are those of the source, declared or not."""
    built, unbuilt = views
    progress = progress_topic(source)
    written = set(mark.offsets) if mark else set()  # of tables that have left, too
    own = {*tables, message_topic(source), transaction_topic(source), *written}
    routed = [topic for topic in written if not topic.startswith(f"{source}.")]
    named = {*broker.topics(f"{source}."), *broker.partitions(routed)}
    ours = (f"{source}.__", outbox_topic(source, ""))
    found = {topic for topic in named if topic in own or topic.startswith(ours)}
    foreign = sorted(named - found)
    held = broker.group_topics([view_group(view) for view in built])
    shared = {
        view
        for view in built
        if any(
            topic not in own and not topic.startswith(f"{source}.")
            for topic in held.get(view_group(view), ())
        )
    }
    built, unbuilt = {*built} - shared, {*unbuilt} | shared
    found |= set(broker.partitions([view_dead_letters_topic(view) for view in built]))
    groups = broker.existing_groups([signal_group(source), *map(view_group, built)])
    groups += broker.groups_of(row_alert_group(source, ""))
    return Found(
        tuple(sorted(found, key=lambda topic: (topic == progress, topic))),
        tuple(sorted(groups)),
        tuple(foreign),
        tuple(sorted(broker.partitions([view_dead_letters_topic(view) for view in unbuilt]))),
        tuple(broker.existing_groups([view_group(view) for view in unbuilt])),
    )


def refuse_topics_of_others(
    source: str, mark: Mark | None, here: SourceIdentity, is_known: bool
) -> None:
    """Raise ``LogError`` unless the source's topics were filled from the database ``here``.

    Without a mark, as ``headwater init`` leaves it when it is interrupted, the database itself has
    to know the source (``is_known``). Pure.
    """
    way_out = f"if their database no longer exists, delete the topics {source}.* with Kafka's "
    way_out += "tools, then run this again"
    if mark is not None:
        try:
            refuse_other_database(source, mark, here)
        except LogError as error:
            message = f"{error.message}: nothing was removed"
            raise LogError(message, f"{error.hint} {sentence(way_out)}") from None
    elif not is_known:
        to = f"database {here.database} of cluster {here.system_id}"
        raise LogError(
            f"Kafka holds topics of source {source} without a progress mark, and {to} does not "
            "know the source: nothing was removed",
            f"check source.dsn, source.name and kafka.bootstrap_servers; {way_out}",
        )
