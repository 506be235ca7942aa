"""What ``headwater uninstall`` would remove, and what it would leave. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.config import Config
from cdc.errors import SourceError, StateError
from cdc.kafka.broker import Broker
from cdc.kafka.marks import stored_mark
from cdc.lag.measure import wal_end
from cdc.source.catalog import chosen_tables
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect, identifier
from cdc.source.publication import read_publication
from cdc.source.schema_owner import refuse_lesser_owner
from cdc.source.slot import PLUGIN, identify, slot_state
from headwater.cli.uninstall.topics import found_in_kafka, refuse_topics_of_others
from jobs.generations.built_views import built_views
from jobs.generations.view_locks import is_free
from jobs.generations.view_state import view_directory
from jobs.state.server.apply_lock import database_holder, directory_holder
from jobs.state.server.connection import shown_place
from jobs.state.server.location import home_of
from jobs.state.views.undeclared_views import views_of_state, with_undeclared
from jobs.state.views.view_status import state_session

_SCHEMA: Final = """
select n.oid is not null,
       coalesce(pg_catalog.pg_has_role(n.nspowner, 'USAGE'), false),
       pg_catalog.to_regclass('headwater.snapshot') is not null,
       exists (select from pg_catalog.pg_event_trigger where evtname = 'headwater_ddl'),
       (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
from (values (1)) one left join pg_catalog.pg_namespace n on n.nspname = 'headwater'
"""
_OWNER: Final = """
select pubowner::regrole::text from pg_catalog.pg_publication
where pubname = %s and not pg_catalog.pg_has_role(pubowner, 'USAGE')
"""
_SOURCES: Final = "select distinct source from headwater.snapshot order by 1"


@dataclass(frozen=True, slots=True)
class Uninstall:
    """What there is of a source. ``retained`` bytes of WAL are kept for its slot; None: no slot.

    ``others`` are sources of the same database, for which the schema stays. ``views`` have rows in
    the stores of these names. Of topics and groups see ``headwater.cli.uninstall.topics.Found``.
    """

    slot: str
    retained: int | None
    publication: str
    schema: bool
    others: tuple[str, ...]
    ddl_events: bool
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    state: Path | None
    state_database: str
    views: tuple[tuple[str, str], ...]
    foreign: tuple[str, ...]
    unbuilt_topics: tuple[str, ...]
    unbuilt_groups: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        found = (self.publication, self.schema, self.topics, self.groups, self.state)
        return self.retained is None and not any(found)


def planned(config: Config) -> Uninstall:
    """Look what there is. Raises ``SourceError`` while capture reads the slot and for rights that
    are missing, ``LogError`` where the topics are another database's, ``StateError`` while apply
    keeps views."""
    source = config.source
    whole = with_undeclared(config)
    refuse_apply(config, whole)
    with connect(source.dsn, application_name="headwater uninstall") as conn:
        identity, retained = identify(conn), _slot(conn, source.slot_name)
        published = read_publication(conn, source.publication_name)
        refuse_other_owner(conn, source.publication_name)
        schema, sources, ddl_events = source_schema(conn, source.name)
        tables = {(table.schema, table.name) for table in chosen_tables(conn, source)[0]}
        tables |= published.tables if published else set()
    filled = built(config, whole)
    views = {name for name, _ in filled}
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        stored = stored_mark(broker, source.name)
        mark = stored.mark if stored else None
        by_build = views, whole.views.keys() - views
        topics = {*source.topics(tables)}
        kafka = found_in_kafka(broker, source.name, mark, topics, by_build)
    if any(topic.startswith(f"{source.name}.") for topic in kafka.topics):
        is_known = retained is not None or source.name in sources
        refuse_topics_of_others(source.name, mark, identity, is_known)
    state = view_directory(config.apply.state, source.name, "")
    return Uninstall(
        source.slot_name,
        retained,
        source.publication_name if published else "",
        schema,
        tuple(name for name in sources if name != source.name),
        ddl_events,
        kafka.topics,
        kafka.groups,
        state if state.is_dir() else None,
        shown_place(config.apply.state_dsn) if config.apply.state_dsn else "",
        filled,
        kafka.foreign,
        kafka.unbuilt_topics,
        kafka.unbuilt_groups,
    )


def refuse_apply(config: Config, whole: Config) -> None:
    """Raise ``StateError`` while a process keeps views of the source, as far as that is seen."""
    name, holder = config.source.name, ""
    if config.apply.engine == "database":
        holder = directory_holder(home_of(config.apply.state, name))
        with state_session(config) as conn:
            holder = holder or (database_holder(conn) if conn else "")
    for view in whole.views:
        if not is_free(view_directory(config.apply.state, name, view), "stream"):
            holder = holder or f"whoever applies view {view}"
    if holder:
        raise StateError(
            f"the views of source {name} are in use by {holder}", "stop `headwater apply`"
        )


def _slot(conn: Connection, name: str) -> int | None:
    state = slot_state(conn, name)
    if state is None:
        return None
    if state.plugin != PLUGIN or state.database != conn.info.dbname:
        raise SourceError(
            f"slot {name} does not belong to this source: plugin {state.plugin}, database "
            f"{state.database}",
            "set source.slot to the slot of this source",
        )
    if state.active:
        raise SourceError(
            f"slot {name} is in use by the server process {state.active_pid}",
            "stop `headwater capture`",
        )
    return 0 if state.restart_lsn is None else max(0, wal_end(conn) - state.restart_lsn)


def refuse_other_owner(conn: Connection, publication: str) -> None:
    """Raise ``SourceError`` for a publication that this role cannot drop."""
    with translated(f"looking for the owner of publication {publication}"):
        row = conn.execute(_OWNER, (publication,)).fetchone()
    if row is not None:
        raise SourceError(
            f"role {conn.info.user} does not own publication {publication}, {row[0]} does",
            f"let {row[0]} run: DROP PUBLICATION {identifier(publication)}; then run this again",
        )


def source_schema(conn: Connection, source: str) -> tuple[bool, tuple[str, ...], bool]:
    """Whether the schema headwater is there, the sources that it knows, and whether the DDL
    triggers go. Raises ``SourceError`` for rights that are missing."""
    refuse_lesser_owner(conn)
    with translated("looking for the schema headwater"):
        row = conn.execute(_SCHEMA).fetchone()
        assert row is not None
        there, owned, known, ddl_events, superuser = row
        sources = tuple(name for (name,) in conn.execute(_SOURCES)) if known else ()
    needed = any(name != source for name in sources)
    if there and not needed and not owned:
        raise SourceError(
            f"role {conn.info.user} does not own the schema headwater",
            "let its owner run: DROP SCHEMA headwater CASCADE; then run this again",
        )
    if ddl_events and not needed and not superuser:
        raise SourceError(
            "the DDL trigger is installed, and only a superuser can remove it",
            "run `headwater init --no-ddl-events` with a superuser in source.dsn, then run "
            "this again",
        )
    return there, sources, ddl_events and not needed


def built(config: Config, whole: Config) -> tuple[tuple[str, str], ...]:
    """Views that have rows in a store, and its name. The state database may be where the files are
    not: another machine applies."""
    files = built_views(config.apply.state, config.source.name)
    names = {*files, *views_of_state(config)}
    return tuple((name, whole.views[name].store) for name in sorted(names))
