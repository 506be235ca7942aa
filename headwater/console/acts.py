"""What people may have done from pages: its form, and the command that it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

from headwater.actions import commands
from headwater.actions.commands import Command
from headwater.api.problems import ProblemError

Form = Mapping[str, str]
_LONGEST: Final = 2_000


@dataclass(frozen=True, slots=True)
class Field:
    """One of a form. ``hint`` stands below it."""

    name: str
    label: str
    kind: Literal["text", "check"] = "text"
    hint: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """``of`` names the field that says of what it is. ``asks`` is of one that tells a running job
    something. ``keyed``: it may be of one key, which only who may see its row may name."""

    name: str
    title: str
    says: str
    button: str
    of: Literal["view", "number", ""]
    command: Callable[[Form], Command]
    fields: tuple[Field, ...] = ()
    danger: bool = False
    asks: bool = False
    keyed: bool = False


_DESPITE: Final = Field(
    "despite_forecast", "Even if WAL will be lost before it is done, by the forecast", "check"
)


def _rebuild(form: Form) -> Command:
    return commands.rebuild(
        form["view"],
        hold="hold" in form,
        refill="refill" in form,
        despite_forecast="despite_forecast" in form,
    )


def _rollback(form: Form) -> Command:
    return commands.rollback(form["view"], to=_number(form["to"]) if form.get("to") else None)


def _replay(form: Form) -> Command:
    return commands.replay(form["view"], place=form["place"])


def _verify(form: Form) -> Command:
    return commands.verify(form["view"], repair="repair" in form)


def _diff(form: Form) -> Command:
    return commands.diff(form["view"])


def _start(form: Form) -> Command:
    tables, views = form.get("tables", "").split(), form.get("views", "").split()
    if not tables and not views:
        detail = "a snapshot needs tables or views"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-request", detail)
    return commands.start_snapshot(
        tables, views, rate=form.get("rate", ""), despite_forecast="despite_forecast" in form
    )


def _resume(form: Form) -> Command:
    despite = "despite_forecast" in form
    return commands.resume_snapshot(_number(form["number"]), despite_forecast=despite)


def _pause(form: Form) -> Command:
    return commands.pause_snapshot(_number(form["number"]))


def _cancel(form: Form) -> Command:
    return commands.cancel_snapshot(_number(form["number"]))


def _retry(form: Form) -> Command:
    return commands.retry_dead_letters(form["view"], _keys(form))


def _discard(form: Form) -> Command:
    return commands.discard_dead_letters(form["view"], _keys(form), form["reason"])


def _keys(form: Form) -> list[str] | None:
    """None: all."""
    return [form["key"]] if form.get("key") else None


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        detail = f"{text[:20]!r} is no number"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-request", detail)
    return int(text)


ACTS: Final[Mapping[str, Act]] = {
    one.name: one
    for one in (
        Act(
            "rebuild", "Rebuild", "It is built again beside the live generation, from the source "
            "at one LSN, and readers are switched when it has caught up. The generation before "
            "is kept for a rollback.",
            "Rebuild the view", "view", _rebuild,
            (Field("hold", "Do not switch by itself when it has caught up", "check"),
             Field("refill", "Fill its mirrors again, too", "check"), _DESPITE),
        ),
        Act(
            "rollback", "Roll back", "Readers see an earlier generation again, as old as it is "
            "until it has caught up.",
            "Roll back", "view", _rollback,
            (Field("to", "Generation", hint="Empty: the last retired one."),), danger=True,
        ),
        Act(
            "replay", "Replay", "Its changes are applied again from an earlier position. Rows that "
            "are newer stay as they are.",
            "Replay", "view", _replay,
            (Field("place", "From", needed=True,
                   hint="An LSN, a moment as 2026-11-28T10:00:00Z, or earliest."),),
        ),
        Act(
            "verify", "Verify", "The view is compared with the source, row by row, at one LSN. It "
            "reads the whole view and its tables.",
            "Verify", "view", _verify,
            (Field("repair", "Write rows that differ anew", "check"),),
        ),
        Act("diff", "Compare with a rebuild", "It is counted which rows a rebuild by today's "
            "declaration would change. Nothing is written.", "Compare", "view", _diff),
        Act(
            "snapshot-start", "Start a snapshot", "Tables are read at one LSN, into topics of "
            "their own, while capture goes on.",
            "Start", "", _start,
            (Field("tables", "Tables", hint="schema.table, separated by spaces."),
             Field("views", "Views", hint="All tables that they read."),
             Field("rate", "At most", hint="As 20MB/s or 5000rows/s. Empty: as configured."),
             _DESPITE),
        ),
        Act("snapshot-pause", "Pause", "It stops after the chunk that it reads, and can be "
            "resumed.", "Pause", "number", _pause, asks=True),
        Act("snapshot-resume", "Resume", "It reads on where it was.", "Resume", "number", _resume,
            (_DESPITE,)),
        Act("snapshot-cancel", "Cancel", "It ends for good, and its topics are deleted.",
            "Cancel the snapshot", "number", _cancel, danger=True, asks=True),
        Act("retry", "Retry", "What waits is applied again. What fails again waits on.", "Retry",
            "view", _retry, keyed=True),
        Act(
            "discard", "Discard", "What waits is deleted and never applied: the store keeps its "
            "row as it is until the row changes again.",
            "Discard for good", "view", _discard,
            (Field("reason", "Reason", needed=True, hint="It goes into the audit log."),),
            danger=True, keyed=True,
        ),
    )
}  # fmt: skip


def command_of(act: Act, form: Form) -> Command:
    """Raises ``ProblemError`` for what the form lacks."""
    needed = [one for one in act.fields if one.needed]
    missing = [one.label.lower() for one in needed if not form.get(one.name, "").strip()]
    if act.of and not form.get(act.of):
        missing.append(act.of)
    if missing:
        detail = f"the form lacks {' and '.join(missing)}"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-request", detail)
    if any(len(value) > _LONGEST or "\0" in value for value in form.values()):
        detail = f"a field has at most {_LONGEST:,} characters"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-request", detail)
    return act.command(form)
