"""Where the published tables are that a route puts elsewhere than their names say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from cdc.config import Config, Source
from cdc.errors import LogError, SourceError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.partition_ends import Read, refuse_others
from cdc.registry.schemas import registry_of, values_of
from cdc.routes.faults import changed_places, route_faults
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.selection import Table
from cdc.topics import table_topic

PUBLISHED = "select schemaname, tablename from pg_catalog.pg_publication_tables where pubname = %s"


class Routed(NamedTuple):
    """``places`` are as the next marks tell them: also those of tables that left the publication,
    whose records are in Kafka. ``published`` has the labels of the published ones among them."""

    places: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    published: frozenset[str] = frozenset()


def check_routes(source: Source, conn: Connection, mark: Mark, ends: Offsets) -> Routed:
    """``mark`` is the newest one, ``ends`` are Kafka's end offsets.

    Raises ``SourceError`` for topics that cannot be, ``LogError`` where a table that is captured
    would go on in another topic.
    """
    if not source.routes and not mark.routed:
        return Routed()
    with translated("reading the published tables"):
        tables = conn.execute(PUBLISHED, (source.publication_name,)).fetchall()
    for fault in route_faults(source.name, source.routing, tables):
        raise SourceError(fault)
    held = [topic for topic, of_topic in ends.items() if any(of_topic.values())]
    if found := changed_places(source.name, source.routing, tables, mark.routed, held):
        raise LogError(*found)
    now = places_of(source, tables)
    labels = [f"{schema}.{table}" for schema, table in tables]
    return Routed(with_those_that_left(mark.routed, labels, now), frozenset(now))


def places_of(source: Source, tables: Sequence[tuple[str, str]]) -> dict[str, Mapping[str, Any]]:
    """Those that a route puts elsewhere than their names say, as in a mark."""
    places = {f"{schema}.{table}": source.place(schema, table) for schema, table in tables}
    return {label: place.recorded for label, place in places.items() if place.route >= 0}


def with_those_that_left(
    before: Mapping[str, Mapping[str, Any]],
    labels: Collection[str],
    now: Mapping[str, Mapping[str, Any]],
) -> dict[str, Mapping[str, Any]]:
    """``now``, which is of the tables ``labels``, and what ``before`` has of others. Pure."""
    return {**{label: of for label, of in before.items() if label not in labels}, **now}


def check_joining(
    config: Config, broker: Broker, tables: Sequence[tuple[str, str]], mark: Mark
) -> None:
    """Raise ``LogError`` where tables that join would go on elsewhere than their records are, with
    other keys or partitions, or beside records of another source."""
    source = config.source
    if not source.routes and not mark.routed:
        return
    held = filled(broker, source, tables, mark.routed)
    if found := changed_places(source.name, source.routing, tables, mark.routed, held):
        raise LogError(*found)
    refuse_other_sources(config, broker, tables, held)


def filled(
    broker: Broker,
    source: Source,
    tables: Sequence[tuple[str, str]],
    before: Mapping[str, Mapping[str, Any]],
) -> set[str]:
    """Topics that hold records, of those where the tables are, would be, or were ``before``."""
    names = {str(of["topic"]) for of in before.values()} | {*source.topics(tables)}
    names |= {str(of["rows"]["topic"]) for of in before.values() if "rows" in of}
    names |= {table_topic(source.name, schema, table) for schema, table in tables}
    there = sorted(broker.partitions(sorted(names)))
    ends = broker.end_offsets(there) if there else {}
    return {topic for topic, of_topic in ends.items() if any(of_topic.values())}


def refuse_other_sources(
    config: Config, broker: Broker, tables: Sequence[tuple[str, str]], held: Collection[str]
) -> None:
    """Raise ``LogError`` where a route puts a table into a topic of another source; ``held`` are
    the topics with records."""
    topics = topics_that_name_sources(places_of(config.source, tables))
    refuse_topics_of_others(
        config, broker, sorted(topics.intersection(held)), values_of(registry_of(config))
    )


def topics_that_name_sources(routed: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Topics of routes, as in a mark, whose values say which source they are of, unless
    ``[events]`` has another content. Where they do not, topics begin with its name. Pure."""
    return {str(of["topic"]) for of in routed.values() if "content" not in of}


def refuse_topics_of_others(
    config: Config, broker: Broker, topics: Sequence[str], read: Read
) -> None:
    """The same of topics that name sources."""
    if topics and config.form.has_events:
        refuse_others(broker, topics, config.source.name, read)


def topic_before(source: str, mark: Mark, table: Table) -> str:
    """The topic that a table had when the mark was written, if it was captured then."""
    plain = table_topic(source, table.schema, table.name)
    return str(mark.routed.get(table.label, {"topic": plain})["topic"])
