"""What the state database knows of views, for ``headwater view list`` and ``view show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple

from cdc.errors import HeadwaterError, RetryableError, ViewError
from headwater.cli.view.groups import rows_made

if TYPE_CHECKING:
    from cdc.config import Config, View
    from jobs.state.mirrors.mirror_record import MirrorRecord, MirrorSize
    from jobs.state.server.connection import Connection
    from jobs.state.views.view_names import ViewNames
    from jobs.state.views.view_record import ViewRecord
    from views.maintain.plan import ViewPlan

Document = dict[str, Any]
AWAY = "the state database is not running"


@contextmanager
def known_state(config: Config) -> Iterator[Connection | None]:
    """The state database as it runs; None where it does not."""
    from jobs.state.views.view_status import state_session

    try:
        session = state_session(config)
        conn = session.__enter__()
    except HeadwaterError:
        yield None
        return
    try:
        yield conn
    finally:
        session.__exit__(None, None, None)


def of_view(conn: Connection, config: Config, name: str) -> Document:
    """How a view is kept now: by keys or whole, its parked keys, and the fault that it has, or its
    last build."""
    from jobs.state.views.generation_keys import live_record
    from jobs.state.views.view_record import unbuilt_errors

    record = live_record(conn, config, name)
    view = config.views[name]
    if record is not None:
        view = view.model_copy(update={"sql": record.sql, "key": record.key})
    unbuilt = unbuilt_errors(conn).get(name)
    found: Document = {"parked_keys": 0, "dirty_keys": 0, "error": unbuilt}
    if record is not None:
        found |= {"error": record.error or None, "build_error": unbuilt}
        found |= _counted(conn, record)
    try:
        plan = planned(conn, name, view, record).plan
    except HeadwaterError as fault:
        return {**found, "mode": None, "reason": str(fault)}
    return {**found, "mode": mode(plan), "reason": plan.reason or None}


def mode(plan: ViewPlan) -> str:
    """How a change reaches the view."""
    if not plan.whole_tables:
        return "incremental"
    return "partly whole" if plan.key_queries else "whole"


def of_plan(conn: Connection, config: Config, name: str, view: View) -> Document:
    """The tables of a view, with their mirrors, and the queries that find and make its rows."""
    from jobs.run.views.view_plan import relation_of
    from jobs.state.mirrors.mirror_record import sizes
    from jobs.state.views.generation_keys import live_record

    record = live_record(conn, config, name)
    made = planned(conn, name, view, record)
    plan, mirrors, names = made.plan, made.mirrors, made.names

    def relation(table: str) -> str:
        return names.reading(table, relation_of(table))

    held = {one.label: one for one in sizes(conn)}
    changes = [
        {
            "table": query.table,
            "alias": query.alias,
            "words": "the keys that its row touches, before and after the change",
            "sql": query.sql(relation, "changed_rows", lambda table: f'changed."{table}"'),
        }
        for query in plan.key_queries
    ]
    changes += [
        {"table": table, "alias": "", "words": f"the view is computed whole: {why}", "sql": ""}
        for table, why in plan.whole_tables.items()
    ]
    cadence_s = config.store(view.store).cadence_s
    every = f", each {cadence_s:g} s at most" if cadence_s else ""
    if plan.clock:
        every += f"; whole each {config.apply.clock_s:g} s, for it reads the clock"
    return {
        "tables": [
            {
                "table": table,
                "key": list(mirrors[table].table.key),
                "columns": list(columns),
                "mirror": _mirror(held.get(table)),
                "called_now": names.renamed(table, columns),
            }
            for table, columns in plan.reads.items()
        ],
        "plan": {
            "kept": f"mirrors in the state database: {mode(plan)}{every}",
            "changes": changes,
            "assumes": list(plan.assumes),
            **rows_made(conn, record, plan, relation),
        },
    }


class _Planned(NamedTuple):
    """A view's plan, the mirrors by ``schema.table``, and what it calls their columns."""

    plan: ViewPlan
    mirrors: Mapping[str, MirrorRecord]
    names: ViewNames


def planned(conn: Connection, name: str, view: View, record: ViewRecord | None = None) -> _Planned:
    """The plan of a view, or of a generation of it, over the mirrors that there are. Raises
    ``ViewError`` where one is not."""
    from jobs.run.tables.mirrored_tables import planned as as_planned
    from jobs.state.mirrors.mirror_record import read_mirrors
    from jobs.state.views.view_names import present, read_names, view_names
    from views.maintain.plan import plan_view
    from views.parse.table_references import tables_read

    mirrors = read_mirrors(conn)
    labels = [table.name for table in tables_read(name, view.sql)]
    if missing := [label for label in labels if label not in mirrors]:
        raise ViewError(
            f"{', '.join(missing)}: not mirrored yet",
            "run `headwater apply`, which fills the mirrors",
        )
    known = {} if record is None else read_names(conn, record.id)
    names = view_names(known, {label: present(mirrors[label].table) for label in labels})
    tables = {label: names.seen(as_planned(mirrors[label].table)) for label in labels}
    return _Planned(plan_view(name, view.sql, view.key, tables), mirrors, names)


def outline(config: Config, name: str, found: Document) -> Document:
    """A view as it was built, or is declared; ``found`` are its generations. Raises ``ViewError``
    for SQL that cannot be read."""
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from views.parse.table_references import tables_read

    view = config.views[name]
    live = read_generations(view_directory(config.apply.state, config.source.name, name)).live
    built = view
    changed = ""
    if live is not None:
        of = live.declared
        built = view.model_copy(update={"sql": of.sql, "key": of.key, "store": of.store})
        changed = _changed(view, built)
    return {
        **found,
        "store": built.store,
        "store_kind": config.store(built.store).kind,
        "settings": view.model_dump(exclude={"store", "key", "sql"}, exclude_defaults=True),
        "sql": dedent(built.sql).strip(),
        "key": list(built.key),
        "declared_otherwise": changed,
        "tables": [{"table": table.name} for table in tables_read(name, built.sql)],
        **dict.fromkeys(("plan", "below_lsn", "lag", "replay")),
        "problems": [],
    }


def gathered(config: Config, name: str, found: Document) -> Document:
    """All that is known of a view, as JSON; ``found`` is its outline. ``problems`` say what is not
    known, and why."""
    from cdc.kafka.broker import Broker
    from headwater.cli.view.position import reached

    of = {"store": found["store"], "key": tuple(found["key"]), "sql": found["sql"]}
    built = config.views[name].model_copy(update=of)
    tables = [one["table"] for one in found["tables"]]
    topics = [config.source.own_topic(*table.split(".", 1)) for table in tables]
    problems = found["problems"]
    with known_state(config) as conn:
        try:
            if conn is None:
                raise RetryableError(AWAY, "run `headwater apply`, which starts it")
            found |= of_plan(conn, config, name, built)
        except HeadwaterError as error:
            problems.append(str(error))
    try:
        with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
            found |= reached(config, name, topics, broker)
    except HeadwaterError as error:
        problems.append(str(error))
    return found


def _changed(view: View, built: View) -> str:
    """What of the declaration is another than the live generation was built with."""
    parts = {
        "SQL": view.sql != built.sql,
        "key": tuple(view.key) != tuple(built.key),
        "store": view.store != built.store,
    }
    return ", ".join(name for name, differs in parts.items() if differs)


def _counted(conn: Connection, record: ViewRecord) -> Document:
    """Its parked keys, and those that wait to be written: of a history, changes."""
    from jobs.state.dead_letters.parked_keys import count_parked

    waits = f"{'queue' if record.history else 'dirty'}.v{record.id}"
    (dirty,) = conn.execute(f"select count(*) from {waits}".encode()).fetchone() or (0,)
    return {"parked_keys": count_parked(conn, record), "dirty_keys": dirty}


def _mirror(held: MirrorSize | None) -> Document | None:
    if held is None:
        return None
    total = held.table_bytes + held.index_bytes
    return {"rows": held.rows, "bytes": total, "state": held.state, "reason": held.reason or None}
