"""What histories need beyond other views: nothing brings back a change that nobody collected."""

from __future__ import annotations

import structlog

from cdc.config import Config, View
from cdc.errors import HeadwaterError, UsageError
from cdc.log_events import LogEvent
from jobs.generations.generation_record import Generation as Recorded
from jobs.run.builds.builder import Declared, begin
from jobs.run.builds.generation_files import GenerationFiles
from jobs.run.process_parts import Parts
from jobs.run.removal import forget_unknown
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.view_plan import planned, relation_of
from jobs.run.views.views_without_mirrors import is_direct
from jobs.state.server.connection import Connection
from jobs.state.views.view_record import LOADED, PAUSED, ViewRecord, note_paused, view_records
from views.parse.table_references import tables_read

log = structlog.get_logger("apply")


def live_record(
    conn: Connection, files: GenerationFiles, generations: GenerationRegistry, view: View
) -> ViewRecord | None:
    """What the state database has of the generation that readers see of a view, which is declared
    as ``view`` now; what it has of others that nobody knows is forgotten."""
    live = files.read().live
    forget_unknown(conn, files)
    if live is None:
        return None
    records = view_records(conn, files.name)
    found = next((one for one in records if one.generation == live.number), None)
    if found is None and live.declared.history:
        return _adopted(conn, files.parts, generations, files.name, view, live)
    return found


def _adopted(
    conn: Connection,
    parts: Parts,
    generations: GenerationRegistry,
    name: str,
    view: View,
    live: Recorded,
) -> ViewRecord:
    """A history that readers see and the state database knows nothing of, which may be new, goes
    on: what the store lacks is read again, and what happened meanwhile is known to nobody."""
    of = live.declared
    built = view.model_copy(
        update={"sql": of.sql, "key": of.key, "store": of.store, "history": of.history}
    )
    planned(generations, conn, name, built)  # fills mirrors, and refuses what cannot be
    declared = Declared(name, built, parts.config)
    with generations.changing() as state, state.transaction():
        plan = planned(generations.as_they_are, state, name, built)
        record = begin(state, declared, live.number, plan, relation_of)
        note_paused(state, record.id)
    log.warning(LogEvent.HISTORY_GOES_ON, view=name, generation=live.number,
                then="rows that differ are read again")  # fmt: skip
    return record._replace(state=PAUSED)


class OtherHistories:
    """Histories that a process was not told to keep: it queues their changes for the one that is,
    for they pass but once. Use from the engine's thread."""

    def __init__(self, parts: Parts, generations: GenerationRegistry) -> None:
        self._parts, self._generations = parts, generations
        self._collected: set[str] = set()
        self._told: dict[str, str] = {}

    def follow(self, conn: Connection) -> None:
        """Collect the changes of those that are live."""
        if not self._parts.names:
            return
        config = self._parts.reload()
        for name, view in config.views.items():
            if name in self._parts.names or name in self._collected or not view.history:
                continue
            try:
                if not is_direct(config, name):
                    self._collect(conn, name, view)
            except HeadwaterError as error:  # tried again: each change passes but once
                if self._told.get(name) != str(error):
                    log.warning(LogEvent.HISTORY_NOT_COLLECTED, view=name, error=str(error))
                self._told[name] = str(error)
                continue
            self._collected.add(name)

    def _collect(self, conn: Connection, name: str, view: View) -> None:
        live = GenerationFiles(self._parts, name, view).read().live
        for record in view_records(conn, name):
            if live is not None and record.generation == live.number and record.state == LOADED:
                self._generations.reopened(conn, record, view)


def refillable(config: Config, name: str, sql: str) -> list[str]:
    """The tables of a view, ``schema.table``, whose mirrors may be filled again. Raises
    ``UsageError`` if a history follows one of them: it would lack the changes of that time."""
    tables = [table.name for table in tables_read(name, sql)]
    for other, view in config.views.items():
        if view.history and (lost := {t.name for t in tables_read(other, view.sql)} & {*tables}):
            raise UsageError(
                f"view {other} has history of {', '.join(sorted(lost))}: while its mirror is "
                "filled again, changes would be missing from the history",
                "run `headwater view rebuild` without --refill",
            )
    return tables
