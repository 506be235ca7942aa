"""The topics that ``headwater.emit`` accepts: as the configuration has them? Does that name all
that capture has written to?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from cdc.config import Config
from cdc.config import Source as Settings
from cdc.kafka.broker import Broker
from cdc.kafka.marks import stored_mark
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.topics import outbox_topic
from headwater.check.finding import Finding, by_sql
from headwater.check.source import Source

_THERE: Final = """
select coalesce(pg_catalog.has_table_privilege(c.oid, 'SELECT'), false)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'headwater' and c.relname = 'emit_topic'
"""
_KNOWN: Final = "select name from headwater.emit_topic where source = %s"
_PUBLIC: Final = """
select pg_catalog.has_schema_privilege('public', n.oid, 'USAGE')
from pg_catalog.pg_namespace n
where n.nspname = 'headwater' and pg_catalog.to_regclass('headwater.emit_topic') is not null
"""
_TABLES: Final = """
select n.nspname, c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname ^@ 'outbox' and c.relkind in ('r', 'p')
"""


def emit_topics(source: Source) -> Iterator[Finding]:
    """Told once the source is initialised: ``init`` brings both together."""
    source.outbox_tables = outbox_tables(source.conn, source.config.source)
    if not source.initialised:
        return
    wanted, known = set(source.config.capture.emit_topics), set[str]()
    with translated("reading the topics of headwater.emit"):
        if source.conn.execute(_THERE).fetchone() == (True,):
            rows = source.conn.execute(_KNOWN, (source.config.source.name,))
            known = {name for (name,) in rows}
    if differing := ", ".join(sorted(wanted ^ known)):
        message = f"capture.emit_topics and what headwater.emit accepts differ in {differing}"
        yield Finding("warning", "emit topics", message, "run `headwater init`")


def emit_rights(source: Source) -> Iterator[Finding]:
    """Whether each role may emit."""
    yield from public_usage(source.conn)


def public_usage(conn: Connection) -> Iterator[Finding]:
    """The migrations take the right from PUBLIC, but where it was another role's to give: then
    PostgreSQL warns, and nothing changes."""
    with translated("reading the privileges on the schema headwater"):
        public = conn.execute(_PUBLIC).fetchone()
    if public == (True,):
        message = "each role may use the schema headwater, and so call headwater.emit"
        sql = "REVOKE USAGE ON SCHEMA headwater FROM PUBLIC"
        yield by_sql("warning", "emit rights", message, sql)


def outbox_tables(conn: Connection, source: Settings) -> set[str]:
    """The topics of tables that may be called as those of emitted events."""
    with translated("looking for tables in a schema outbox"):
        return {*source.topics(conn.execute(_TABLES))}


def unnamed_topics(config: Config, broker: Broker, tables: Collection[str]) -> Iterator[Finding]:
    """Topics that capture has written emitted events to and the configuration does not name: those
    who emit to them would be refused. ``tables`` are the topics of tables. Earlier versions took
    any topic."""
    stored = stored_mark(broker, config.source.name)
    if stored is not None and (names := unnamed(config, stored.mark.offsets, tables)):
        message = f"Kafka holds events that were emitted to {', '.join(names)}, which "
        message += "capture.emit_topics does not name: headwater.emit would refuse the next ones"
        hint = "name them in capture.emit_topics, then run `headwater init`"
        yield Finding("error", "emit topics", message, hint)


def unnamed(config: Config, topics: Iterable[str], tables: Collection[str]) -> list[str]:
    """Those of Kafka's ``topics`` that are of emitted events and that the configuration does not
    name, as ``emit`` names them. Pure."""
    prefix = outbox_topic(config.source.name, "")
    emitted = {
        topic.removeprefix(prefix)
        for topic in set(topics) - set(tables)
        if topic.startswith(prefix)
    }
    return sorted(emitted - set(config.capture.emit_topics))
