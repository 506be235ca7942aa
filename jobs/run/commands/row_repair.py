"""Rows of a view written again, and records applied again that could not be; or given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cdc.errors import RetryableError, ViewError
from cdc.plural import plural
from jobs.run.builds.builder import Generation
from jobs.run.builds.view_build import stopped
from jobs.run.commands.work import Work
from jobs.run.views.history_recovery import refillable
from jobs.state.dead_letters.faulty_records import FaultyRecord, faulty_records
from jobs.state.dead_letters.parked_keys import ParkedKey, parked_keys, unpark
from jobs.state.groups.tables import fill_groups
from jobs.state.histories.queue import History, added, make_up_for_history
from jobs.state.views.own_columns import own_columns
from jobs.state.views.repair import Anew, is_written, make_anew

_COUNT_S: Final = 0.25
"""Between two looks how many keys are left to be written."""


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
        work.steps.step(f"applying {plural(len(records), 'record')} again")
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


def named(generation: Generation, key: Sequence[str]) -> str:
    """A key of a view for people: ``id=7``."""
    return ", ".join(f"{c.name}={v}" for c, v in zip(generation.kept.key, key, strict=True))


def refill(work: Work) -> dict[str, Any]:
    """The mirrors of the view's tables filled again from the source, and its rows that differ then
    written: also those gone that no event has told of, as of a partition that was detached."""
    live = _live(work)
    tables = refillable(work.parts.reload(), work.name, live.record.sql)
    work.steps.step(f"{', '.join(tables)}: to be read again from the source")
    work.help.refill(tables)
    work.views.open_again(work.conn, work.entry)
    live = _live(work)
    _written(work, live, make_anew(work.conn, live.kept, []))
    return {"generation": live.record.generation, "tables": tables}


def _live(work: Work) -> Generation:
    entry = work.entry
    if entry.live is not None:
        return entry.live
    if entry.error is not None:
        said = entry.error.message.removeprefix(f"view {work.name}: ")
        raise ViewError(f"view {work.name} has stopped: {said}", entry.error.hint)
    if entry.seen is not None:
        raise RetryableError(f"view {work.name} is just being opened", "run it again")
    raise ViewError(
        f"view {work.name}: it has no live generation yet",
        f"run `headwater view create {work.name}`",
    )


def _written(work: Work, live: Generation, marked: Anew) -> None:
    """Until the store holds the rows of all these keys."""
    work.steps.step(f"trying to write {plural(marked.keys, 'row')} again")
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
