"""What ``headwater uninstall`` does, in an order that is safe to interrupt: the slot first, which
alone can do harm when it is left; what tells of the rest last."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Final

from cdc.config import Config
from cdc.kafka.broker import Broker
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from cdc.source.publication import drop_publication
from cdc.source.slot import drop_slot
from cdc.topics import progress_topic
from headwater.cli.uninstall.plan import Uninstall
from jobs.state.server.database import delete_state
from migrations.ddl_events import set_ddl_events

_TABLES: Final = ("snapshot", "signal", "emit_topic", "treated_column")
"""Those of the schema headwater whose rows name their source."""
_THERE: Final = "select pg_catalog.to_regclass(%s) is not null"


def carry_out(config: Config, found: Uninstall, tell: Callable[[str], None]) -> None:
    """Remove it; ``tell`` hears of each thing that is gone. Raises ``HeadwaterError``; the same
    call then removes the rest."""
    with connect(config.source.dsn, application_name="headwater uninstall") as conn:
        if drop_slot(conn, found.slot):
            tell(f"slot {found.slot} dropped")
        if found.publication:
            drop_publication(conn, found.publication)
            tell(f"publication {found.publication} dropped")
        _remove_topics(config, found, tell)
        if found.state is not None:
            if config.apply.engine == "database" and not config.apply.state_dsn:
                delete_state(config)
            shutil.rmtree(found.state, ignore_errors=True)
            tell(f"{found.state} deleted")
        if found.ddl_events:
            set_ddl_events(conn, False)
            tell("DDL events removed")
        if found.schema:
            tell(remove_schema(conn, config.source.name, bool(found.others)))


def _remove_topics(config: Config, found: Uninstall, tell: Callable[[str], None]) -> None:
    """The progress topic last: it names those of tables that have left."""
    progress = progress_topic(config.source.name)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        broker.delete_groups(found.groups)
        broker.delete_topics([topic for topic in found.topics if topic != progress])
        broker.delete_topics([progress])
    if found.topics:
        tell(f"{len(found.topics)} topics deleted")
    if found.groups:
        tell(f"{len(found.groups)} consumer groups deleted")


def remove_schema(conn: Connection, source: str, shared: bool) -> str:
    """Drop it, or where it is ``shared`` only what it holds of the source; what was done."""
    with translated("removing the schema headwater"):
        if not shared:
            conn.execute("drop schema headwater cascade")
            return "schema headwater dropped"
        with conn.transaction():
            for table in (f"headwater.{name}" for name in _TABLES):
                if conn.execute(_THERE, (table,)).fetchone() == (True,):  # older schemas lack some
                    conn.execute(f"delete from {table} where source = %s".encode(), (source,))
        return f"source {source} forgotten in schema headwater"
