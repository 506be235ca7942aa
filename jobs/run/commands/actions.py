"""What each command on a view does. Errors go to whoever asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cdc.errors import UsageError, ViewError
from jobs.generations.generation_record import Generation as Recorded
from jobs.run.builds.builder import Generation
from jobs.run.builds.generation_files import GenerationFiles, is_built_from
from jobs.run.builds.step_log import Steps
from jobs.run.builds.view_build import ViewBuild, stopped
from jobs.run.process_parts import Parts
from jobs.run.removal import drop_all, drop_generation
from jobs.run.views.history_recovery import refillable
from jobs.run.views.view_entry import ViewEntry
from jobs.run.views.view_registry import ViewRegistry
from jobs.state.dead_letters.faulty_records import FaultyRecord, faulty_records
from jobs.state.dead_letters.parked_keys import ParkedKey, parked_keys, unpark
from jobs.state.groups.tables import fill_groups
from jobs.state.histories.queue import History, added, make_up_for_history
from jobs.state.server.connection import Connection
from jobs.state.views.commands import Command
from jobs.state.views.own_columns import own_columns
from jobs.state.views.repair import Anew, is_written, make_anew
from jobs.state.views.view_record import view_records

_POLL_S: Final = 0.05
_COUNT_S: Final = 0.25
"""Between two looks how many keys are left to be written."""


class Help(Protocol):
    """What the engine does for commands."""

    def spare_mirrors(self) -> None:
        """Mirrors that no view needs are to be dropped."""

    def refill(self, labels: Sequence[str]) -> None:
        """The mirrors of these tables are to be filled again from the source."""

    def again(self, records: Sequence[FaultyRecord]) -> None:
        """Apply records once more that could not be applied, in their order."""

    def forget(self, records: Sequence[FaultyRecord]) -> None:
        """Give them up."""


@dataclass(slots=True)
class Work:
    """A command at work. ``withdrawn``: nobody waits for it any more. ``lasting`` is its result
    where that is there until it is withdrawn. It has a session once it asks for one: those that
    wait for builds, as many as there are views, need none."""

    command: Command
    parts: Parts
    views: ViewRegistry
    entry: ViewEntry
    help: Help
    steps: Steps = field(default_factory=Steps)
    withdrawn: threading.Event = field(default_factory=threading.Event)
    lasting: dict[str, Any] = field(default_factory=dict)
    _conn: Connection | None = field(default=None, init=False)

    @property
    def conn(self) -> Connection:
        """A session with the state database, in autocommit mode."""
        if self._conn is None:
            self._conn = self.parts.server.connect(autocommit=True)
        return self._conn

    def close(self) -> None:
        """Release the session."""
        if self._conn is not None:
            self._conn.close()

    @property
    def name(self) -> str:
        return self.command.view

    @property
    def files(self) -> GenerationFiles:
        return GenerationFiles(self.parts, self.name)


def create(work: Work) -> dict[str, Any]:
    """A view that is not there; of one that apply builds already, that build is waited for."""
    entry, hold = work.entry, bool(work.command.arguments.get("hold"))
    anew = bool(work.command.arguments.get("new_history"))
    if (live := entry.live) is not None:
        if hold or not is_built_from(live.record, entry.declared):
            raise UsageError(
                f"view {work.name} already exists", f"run `headwater view rebuild {work.name}`"
            )
        noted = work.files.read().of[live.record.generation]
        return _built(work.name, noted)
    if entry.build is None:
        return _waited_for(work, work.views.build(entry, hold, anew), own=hold)
    entry.build.hold = hold
    return _waited_for(work, entry.build, own=hold)


def rebuild(work: Work) -> dict[str, Any]:
    """A view anew, beside the live one; if asked for, over mirrors that are filled again."""
    entry, hold = work.entry, bool(work.command.arguments.get("hold"))
    anew = bool(work.command.arguments.get("new_history"))
    if entry.live is None and not work.files.read().of:
        raise UsageError(
            f"view {work.name} does not exist yet", f"run `headwater view create {work.name}`"
        )
    if work.command.arguments.get("refill"):
        tables = refillable(work.parts.reload(), work.name, entry.declared.sql)
        work.steps.step(f"{', '.join(tables)}: to be read again from the source")
        work.help.refill(tables)
    if entry.build is not None:
        return _waited_for(work, entry.build, own=False)
    return _waited_for(work, work.views.build(entry, hold, anew), own=True)


def roll_back(work: Work) -> dict[str, Any]:
    """A generation that readers saw before, again; what it has missed is made up for then."""
    to, found = work.command.arguments.get("to"), work.files.read()
    retired = [one for one in found.retired if to in (None, one.number)]
    if not retired:
        known = ", ".join(str(one.number) for one in found.retired) or "none"
        wanted = "earlier generation" if to is None else f"generation {to}"
        raise UsageError(
            f"view {work.name} has no {wanted} to roll back to", f"retired generations: {known}"
        )
    number = retired[0].number
    records = view_records(work.conn, work.name)
    record = next((one for one in records if one.generation == number and one.is_loaded), None)
    if record is None:
        raise ViewError(
            f"view {work.name}: the state database has no generation {number}",
            f"run `headwater view rebuild {work.name}`",
        )
    generations = work.views.generations
    generation = generations.reopened(work.conn, record, work.entry.declared)
    try:
        work.views.show(work.conn, work.entry, generation, missed=True)
    except BaseException:
        generations.leave(generation)
        raise
    return {
        "generation": number,
        "instead_of": None if found.live is None else found.live.number,
        "retired_s": retired[0].retired_s,
        "as_declared": is_built_from(record, work.entry.declared),
    }


def drop(work: Work) -> dict[str, Any]:
    """A view, or one of its generations that nobody reads."""
    number, found = work.command.arguments.get("generation"), work.files.read()
    if number is None:
        work.views.give_up(work.entry)
        numbers = drop_all(work.conn, work.files)
        work.help.spare_mirrors()
        return {"dropped": numbers}
    if number not in found.of:
        known = ", ".join(map(str, found.of)) or "none"
        raise UsageError(f"view {work.name} has no generation {number}", f"it has {known}")
    if found.live is not None and found.live.number == number:
        raise UsageError(
            f"generation {number} of view {work.name} is live",
            "leave out --generation to drop the whole view",
        )
    if (build := work.entry.build) is not None:
        build.stop()
        build.join()
    if number in work.files.read().of:
        drop_generation(work.conn, work.files, number)
    return {"dropped": [number]}


def anew(work: Work) -> dict[str, Any]:
    """Rows written again, though nothing of the source has changed: of some keys, or all."""
    live = _live(work)
    if live.history is not None:
        return {"generation": live.record.generation, "rows": _read_again(work, live.history)}
    fill_groups(work.conn, live.kept, again=True)
    marked = make_anew(work.conn, live.kept, work.command.arguments.get("keys"))
    _written(work, live, marked)
    return {"generation": live.record.generation, "rows": marked.keys}


def _read_again(work: Work, history: History) -> int:
    """Of a history all rows that differ from the mirror's, as changes of their own; how many."""
    batch = make_up_for_history(work.conn, history)
    work.steps.step("rows that differ are read again")
    work.views.generations.wake()
    while (found := added(work.conn, history.id, batch)) is None:
        if work.withdrawn.wait(_COUNT_S):
            raise stopped(work.name)
    return found


def retry(work: Work) -> dict[str, Any]:
    """Records and rows that could not be applied, once more."""
    live = _live(work)
    keys, records = _dead_letters(work, live)
    if records:
        work.steps.step(f"applying {len(records):,} records again")
        work.help.again(records)
    if keys:
        _written(work, live, make_anew(work.conn, live.kept, [one.key for one in keys]))
    left_keys, left_records = _dead_letters(work, live)
    left = {one.key: one.cause for one in left_keys}, {o.record: o.cause for o in left_records}
    return {
        "events": sum(one.key not in left[0] for one in keys)
        + sum(one.record not in left[1] for one in records),
        "keys": _count(keys, records) - _count(left_keys, left_records),
        "left": [
            *({"key": named(live, one.key), "cause": one.cause} for one in left_keys),
            *({"key": one.key, "cause": one.cause} for one in left_records),
        ],
    }


def discard(work: Work) -> dict[str, Any]:
    """Records and rows that could not be applied, given up."""
    live = _live(work)
    keys, records = _dead_letters(work, live)
    work.help.forget(records)
    with work.conn.transaction():
        unpark(work.conn, live.kept, [one.key for one in keys])
    return {"events": len(keys) + len(records), "keys": _count(keys, records), "left": []}


WORK: Final[Mapping[str, Callable[[Work], dict[str, Any]]]] = {
    "create": create,
    "rebuild": rebuild,
    "rollback": roll_back,
    "drop": drop,
    "anew": anew,
    "retry": retry,
    "discard": discard,
}


def named(generation: Generation, key: Sequence[str]) -> str:
    """A key of a view for people: ``id=7``."""
    return ", ".join(f"{c.name}={v}" for c, v in zip(generation.kept.key, key, strict=True))


def _waited_for(work: Work, build: ViewBuild, own: bool) -> dict[str, Any]:
    """The build's result; ``own``: it ends if nobody waits for it."""
    work.steps = build.steps
    while not build.done:
        if build.hold and build.result:
            work.lasting = dict(build.result)
        if work.withdrawn.wait(_POLL_S):
            if not own:
                raise stopped(work.name)
            build.stop()
            build.join()
    if build.error is not None:
        raise build.error
    return dict(build.result)


def _built(name: str, recorded: Recorded) -> dict[str, Any]:
    return {
        "view": name,
        "generation": recorded.number,
        "live": True,
        "rows": recorded.rows,
        "seconds": 0.0,
    }


def _live(work: Work) -> Generation:
    if work.entry.live is None:
        raise ViewError(
            f"view {work.name}: it has no live generation yet",
            f"run `headwater view create {work.name}`",
        )
    return work.entry.live


def _written(work: Work, live: Generation, marked: Anew) -> None:
    """Until the store holds the rows of all these keys."""
    work.steps.step(f"{marked.keys:,} rows are written again")
    work.views.generations.wake()
    first = own_columns(live.kept.key).first_seq
    query = f"select count(*) from {live.kept.dirty} where {first} <= %s".encode()
    told = ""
    while not is_written(work.conn, live.kept, marked.batch):
        (left,) = work.conn.execute(query, (marked.batch,)).fetchone() or (0,)
        work.steps.reading(max(0, marked.keys - left), marked.keys)
        error = work.views.generations.errors().get(work.name)
        if error is not None and str(error) != told:
            told = str(error)
            work.steps.step(f"waiting: {told}")
        if work.withdrawn.wait(_COUNT_S):
            raise stopped(work.name)


def _dead_letters(work: Work, live: Generation) -> tuple[list[ParkedKey], list[FaultyRecord]]:
    """Those that the command is for: all, or of ``keys`` and ``records`` (table and key)."""
    arguments = work.command.arguments
    keys = parked_keys(work.conn, live.record.id)
    reads = live.kept.plan.reads
    records = [one for one in faulty_records(work.conn) if one.table in reads]
    if arguments.get("all", False):
        return keys, records
    wanted = {tuple(key) for key in arguments.get("keys", ())}
    of = {(table, key) for table, key in arguments.get("records", ())}
    return (
        [one for one in keys if one.key in wanted],
        [one for one in records if (one.table, one.key) in of],
    )


def _count(keys: Sequence[ParkedKey], records: Sequence[FaultyRecord]) -> int:
    return len(keys) + len({(one.table, one.key) for one in records})
