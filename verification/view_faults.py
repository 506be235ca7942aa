"""Views that do not follow the source now: those that a fault has ended, and those that nobody
applies, which are as stale as nobody says. ``lag``, ``health`` and ``check`` fail for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from cdc.errors import sentence
from cdc.lag.report import Report
from verification.view_facts import ViewFacts
from verification.view_positions import StoppedError

STOPPED: Final = "stopped"
NOT_APPLIED: Final = "not applied"


class ViewFault(NamedTuple):
    """Why a view does not follow the source, and what to do; ``kind`` is one of the two above."""

    view: str
    kind: str
    message: str
    hint: str


def view_fault(facts: ViewFacts, view: str) -> ViewFault | None:
    """None for a view that is applied, and for one whose state is elsewhere: nobody here can say.

    Raises ``UsageError`` for a view that is not declared.
    """
    try:
        facts.refuse_stopped(view, {})
    except StoppedError as error:
        return ViewFault(view, STOPPED, error.message, error.hint)
    if facts.applied(view) is not False:
        return None
    return not_applied([view])


def not_applied(views: Sequence[str]) -> ViewFault:
    """That nobody applies these views, in one line."""
    names, some = ", ".join(views), f"`headwater apply {' '.join(views)}`"
    said, which = f"view {names}: no process applies it", "this one"
    if len(views) > 1:
        said, which = f"views {names}: no process applies them", "these"
    hint = f"run `headwater apply` for all views, or {some} for {which}"
    return ViewFault(names, NOT_APPLIED, said, sentence(hint))


def together(faults: Iterable[ViewFault]) -> list[ViewFault]:
    """For people: those of views that nobody applies as one, behind the others."""
    found = list(faults)
    idle = [one.view for one in found if one.kind == NOT_APPLIED]
    others = [one for one in found if one.kind != NOT_APPLIED]
    return [*others, not_applied(idle)] if idle else others


def view_faults(facts: ViewFacts, views: Iterable[str]) -> list[ViewFault]:
    """Those of some views."""
    return [fault for view in views if (fault := view_fault(facts, view)) is not None]


def late(report: Report, max_lag_s: float, known: Container[str] = ()) -> list[str]:
    """What is to be said of views that lack a commit for longer than that, in Kafka or not, have
    lost some, or were not built; nothing of those that are ``known`` not to follow."""
    found, capture = [], report.capture
    if report.views and capture.lag_s is None:
        found.append(
            "how late views are is not known: Kafka does not hold all of the source's WAL, and no "
            "heartbeat tells how old the rest is"
        )
    for one in report.views:
        if one.view in known:
            continue
        if not any(partition.started for partition in one.partitions):
            found.append(f"view {one.view} was not built yet: `headwater apply` does it")
        elif one.lag_s > max_lag_s:
            behind = f"{one.lag_s:.0f} s behind the source, more than {max_lag_s:g}"
            waiting = "" if one.behind_records else ": the change is not in Kafka yet"
            found.append(f"view {one.view} is {behind}{waiting}")
        if lost := one.lost_records:
            found.append(
                f"view {one.view} lacks {lost:,} records that Kafka has deleted. "
                f"Run `headwater view rebuild {one.view}`."
            )
    return found
