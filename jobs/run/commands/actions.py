"""What each command on a view does. Errors go to whoever asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from cdc.errors import UsageError, ViewError
from cdc.kafka.broker import Broker
from cdc.topics import view_group
from jobs.generations.generation_record import Generation as Recorded
from jobs.run.builds.generation_files import is_built_from
from jobs.run.builds.view_build import ViewBuild, stopped
from jobs.run.commands.row_repair import anew, discard, refill, retry
from jobs.run.commands.work import Work
from jobs.run.removal import drop_all, drop_generation
from jobs.run.views.history_recovery import refillable
from jobs.state.views.view_record import view_records
from views.parse.table_references import tables_read

_POLL_S: Final = 0.05


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
            f"view {work.name} has no {wanted} to roll back to", f"choose a retired one: {known}"
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
        go_back = partial(generations.reach.go_back, record.id, record.name)
        work.views.show(work.conn, work.entry, generation, go_back, missed=True)
    except BaseException:
        generations.leave(generation)
        raise
    return {
        "generation": number,
        "instead_of": None if found.live is None else found.live.number,
        "retired_s": retired[0].retired_s,
        "as_declared": is_built_from(record, work.entry.declared),
    }


def _is_own(work: Work, topic: str) -> bool:
    """Whether a topic is of the view's source."""
    tables = [(at.schema, at.table) for at in tables_read(work.name, work.entry.declared.sql)]
    return work.parts.config.source.is_own(topic, tables)


def drop(work: Work) -> dict[str, Any]:
    """A view, or one of its generations that nobody reads."""
    number, found = work.command.arguments.get("generation"), work.files.read()
    if number is None:
        work.views.give_up(work.entry)
        kafka = work.parts.config.kafka
        with Broker(kafka.bootstrap_servers, kafka) as broker:
            broker.leave_group(view_group(work.name), partial(_is_own, work))
        numbers = drop_all(work.conn, work.files)
        work.help.spare_mirrors()
        return {"dropped": numbers}
    if number not in found.of:
        known = ", ".join(map(str, found.of)) or "none"
        raise UsageError(f"view {work.name} has no generation {number}", f"choose one of {known}")
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


WORK: Final[Mapping[str, Callable[[Work], dict[str, Any]]]] = {
    "create": create,
    "rebuild": rebuild,
    "rollback": roll_back,
    "drop": drop,
    "anew": anew,
    "refill": refill,
    "retry": retry,
    "discard": discard,
}


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
