"""The newest progress mark of a source, and whether it is of the database of ``source.dsn``.

Every command that writes into a source's topics, or from them into stores, compares the two: a copy
of a configuration, and of the schema ``headwater`` with it, would write among another's changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cdc.config import Config
from cdc.errors import LogError, RetryableError
from cdc.events.form import told
from cdc.events.mark_records import StoredMark, newest_of
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Record, windows_back
from cdc.source.postgres import connect
from cdc.source.slot import SourceIdentity, identify
from cdc.topics import progress_topic


def newest_mark(broker: Broker, source: str) -> StoredMark | None:
    """The newest whole mark, None where capture may not start: ``init`` was not run, or is not
    done. Raises ``LogError`` when the topic is not there, or holds something else."""
    topic = progress_topic(source)
    return newest_of(_backwards(broker, topic), topic)


def stored_mark(broker: Broker, source: str) -> StoredMark | None:
    """As ``newest_mark``; None also where there is no such topic."""
    there = broker.partitions([progress_topic(source)])
    return newest_mark(broker, source) if there else None


def own_mark(broker: Broker, source: str, here: SourceIdentity) -> Mark:
    """The newest mark, which is of the database ``here``.

    Raises ``LogError`` where there is none, or it is of another database, ``RetryableError`` when
    it is of the time before the server was promoted, for then capture has to follow it first.
    """
    stored = stored_mark(broker, source)
    if stored is None:
        raise uninitialised(source)
    refuse_other_database(source, stored.mark, here)
    if stored.mark.timeline != here.timeline:
        raise RetryableError(
            f"the source is on timeline {here.timeline}, Kafka was filled from "
            f"{stored.mark.timeline}",
            "start `headwater capture`: it follows a server that was promoted, and refuses a copy",
        )
    return stored.mark


def refuse_foreign_topics(config: Config, broker: Broker) -> SourceIdentity:
    """Who the source is, which Kafka's topics have to be of. Raises ``LogError`` where they are of
    another database, or hold events of another form; ``init`` may still have to make them."""
    with connect(config.source.dsn, application_name="headwater") as conn:
        here = identify(conn)
    stored = stored_mark(broker, config.source.name)
    if stored is not None:
        refuse_other_database(config.source.name, stored.mark, here)
        refuse_other_form(config, stored.mark.form)
    return here


def refuse_known_foreign_topics(config: Config) -> None:
    """As ``refuse_foreign_topics``, of what may need no source: while it or Kafka does not answer,
    nothing is compared."""
    kafka = config.kafka
    with suppress(RetryableError), Broker(kafka.bootstrap_servers, kafka) as broker:
        refuse_foreign_topics(config, broker)


def uninitialised(source: str) -> LogError:
    """Kafka has no mark."""
    return LogError(
        f"source {source} is not initialised: topic {progress_topic(source)} holds no progress "
        "record",
        "run `headwater init` first",
    )


def refuse_other_database(source: str, mark: Mark, here: SourceIdentity) -> None:
    """Raise ``LogError`` where the topics were filled from another database than ``here``. Pure."""
    if (mark.system_id, mark.database) != (here.system_id, here.database):
        raise LogError(
            f"Kafka holds topics of source {source} from database {mark.database} of cluster "
            f"{mark.system_id}, but source.dsn leads to database {here.database} of cluster "
            f"{here.system_id}",
            "check source.dsn, source.name and kafka.bootstrap_servers, or give this source a name "
            "of its own; if this is the same database after pg_upgrade, run "
            "`headwater init --again --moved`",
        )


def refuse_other_form(config: Config, begun: Mapping[str, Any]) -> None:
    """Raise ``LogError`` where topics were begun with events of another form than ``[events]``
    asks for. Pure."""
    wanted = config.form.recorded
    if dict(begun) != wanted:
        raise LogError(
            f"the topics of source {config.source.name} were begun with {told(begun)} in [events], "
            f"but the configuration says {told(wanted)}: a topic has one form",
            "set [events] back, or give this source a name of its own in source.name; or delete "
            "the topics with Kafka's tools and run `headwater init --again`",
        )


def _backwards(broker: Broker, topic: str) -> Iterator[Record]:
    end = broker.end_offsets([topic])[topic][0]
    floor = broker.beginning_offsets([topic])[topic][0]
    for start, stop in windows_back(floor, end):
        yield from reversed(list(broker.read(topic, 0, start, stop)))
