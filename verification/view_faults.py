"""Views that do not follow the source now: those that a fault has ended, and those that nobody
applies, which are as stale as nobody says. ``lag``, ``health`` and ``check`` fail for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cdc.lag.measure import PartitionLag
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
    hint = f"`headwater apply` keeps all views, `headwater apply {view}` this one alone"
    return ViewFault(view, NOT_APPLIED, f"view {view}: no process applies it", hint)


def view_faults(facts: ViewFacts, views: Iterable[str]) -> list[ViewFault]:
    """Those of some views."""
    return [fault for view in views if (fault := view_fault(facts, view)) is not None]


def late(lags: Sequence[PartitionLag], max_lag_s: float) -> list[str]:
    """What is to be said of views that lack a change for longer than that, or have lost some."""
    found = []
    for view in dict.fromkeys(one.view for one in lags):
        own = [one for one in lags if one.view == view]
        behind_s = max(one.behind_s for one in own)
        if behind_s > max_lag_s:
            found.append(
                f"view {view} is {behind_s:.0f} s behind the source, more than {max_lag_s:g}"
            )
        if lost := sum(one.lost_records for one in own):
            found.append(
                f"view {view} lacks {lost:,} records that Kafka has deleted: "
                f"headwater view rebuild {view}"
            )
    return found
