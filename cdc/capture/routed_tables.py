"""Where the published tables are that a route puts elsewhere than their names say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.config import Source
from cdc.errors import LogError, SourceError
from cdc.events.marks import Mark
from cdc.kafka.broker import Offsets
from cdc.routes.faults import changed_places, route_faults
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.selection import Table
from cdc.topics import table_topic

PUBLISHED = "select schemaname, tablename from pg_catalog.pg_publication_tables where pubname = %s"


def check_routes(
    source: Source, conn: Connection, mark: Mark, ends: Offsets
) -> Mapping[str, Mapping[str, Any]]:
    """As the next marks tell it; ``mark`` is the newest one, ``ends`` are Kafka's end offsets.

    Raises ``SourceError`` for topics that cannot be, ``LogError`` where a table that is captured
    would go on in another topic.
    """
    if not source.routes and not mark.routed:
        return {}
    with translated("reading the published tables"):
        tables = conn.execute(PUBLISHED, (source.publication_name,)).fetchall()
    for fault in route_faults(source.name, source.routing, tables):
        raise SourceError(fault)
    held = [topic for topic, of_topic in ends.items() if any(of_topic.values())]
    if found := changed_places(source.name, source.routing, tables, mark.routed, held):
        raise LogError(*found)
    places = {f"{schema}.{table}": source.place(schema, table) for schema, table in tables}
    return {label: place.recorded for label, place in places.items() if place.route >= 0}


def topic_before(source: str, mark: Mark, table: Table) -> str:
    """The topic that a table had when the mark was written, if it was captured then."""
    plain = table_topic(source, table.schema, table.name)
    return str(mark.routed.get(table.label, {"topic": plain})["topic"])
