"""What has to hold where a connector of Debezium fills the topics: ``source.events``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cdc.config import Config
from cdc.kafka.broker import Broker
from cdc.source.errors import translated
from cdc.source.postgres import identifier
from cdc.source.selection import Table
from cdc.topics import table_topic
from headwater.check.finding import Finding, by_sql
from headwater.check.source import Source

_ROLE: Final = """
select rolname::text, rolreplication or rolsuper from pg_catalog.pg_roles
where rolname = current_user
"""
_SLOT: Final = """
select plugin::text, database::text, active, confirmed_flush_lsn::text
from pg_catalog.pg_replication_slots where slot_name = %s
"""
_PUBLICATION: Final = "select 1 from pg_catalog.pg_publication where pubname = %s"


def connector(source: Source) -> Iterator[Finding]:
    """Its slot and publication, and the right to take snapshots of tables."""
    settings, conn = source.config.source, source.conn
    name, publication = settings.slot_name, settings.publication_name
    with translated("looking for the connector's slot"):
        role = conn.execute(_ROLE).fetchone()
        slot = conn.execute(_SLOT, (name,)).fetchone()
        published = conn.execute(_PUBLICATION, (publication,)).fetchone()
    assert role is not None
    if not role[1]:
        sql = f"ALTER ROLE {identifier(role[0])} REPLICATION"
        message = f"role {role[0]} may not replicate, which snapshots of tables need"
        yield by_sql("error", "replication privilege", message, sql)
    if published is None:
        hint = "set source.publication to the connector's publication.name"
        yield Finding("error", "publication", f"the source has no publication {publication}", hint)
    if slot is None or slot[3] is None or slot[1] != conn.info.dbname:
        hint = "set source.slot to the connector's slot.name, and start the connector first"
        yield Finding("error", "slot", f"the database has no logical slot {name}", hint)
    elif slot[0] != "pgoutput":
        hint = 'set plugin.name = "pgoutput" in the connector'
        yield Finding("error", "slot", f"slot {name} is of the plugin {slot[0]}", hint)
    elif not slot[2]:
        message, hint = f"nobody reads slot {name}", "start the connector"
        yield Finding("warning", "slot", message, hint)
    else:
        yield Finding("ok", "slot", f"the connector reads {name}, it has confirmed {slot[3]}")


def connector_topics(config: Config, broker: Broker, tables: Sequence[Table]) -> Iterator[Finding]:
    """Whether each table has a topic: views are built when it is there."""
    name = config.source.name
    topics = {table_topic(name, one.schema, one.name): one.label for one in tables}
    there = broker.partitions(list(topics))
    if absent := [topic for topic in topics if topic not in there]:
        message = f"there is no topic {', '.join(absent)}"
        hint = (
            "set source.name to the connector's topic.prefix; a table that had no change since "
            "the connector was started, nor a row in its snapshot, has no topic"
        )
        yield Finding("warning", "kafka", message, hint)
    else:
        yield Finding("ok", "kafka", f"{len(topics)} topics at {config.kafka.bootstrap_servers}")
