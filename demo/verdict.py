"""The end of the story: each view compared with the source, and how fresh it was all along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from demo.environment import STORES, VIEWS
from demo.freshness import Window, batches, freshness, undisturbed
from demo.pipeline import Pipeline
from demo.report import ViewReport
from demo.status import Stage

_VERIFY_S = 300.0
_WAIT = ("--timeout", "120")
_WRONG = ("missing", "extra", "different", "undecided")


class Live(NamedTuple):
    """The time of live traffic, in seconds since the epoch, and the kills in it."""

    start: float
    end: float
    kills: Sequence[Window]


def verified(
    pipeline: Pipeline, live: Live, stage: Stage, on_wait: Callable[[], None]
) -> list[ViewReport]:
    """Run ``headwater verify`` for every view. Raises ``FatalError`` when a command fails;
    a view that differs is a result."""
    found = list(batches(pipeline.job_log()))
    reports = []
    for view in VIEWS:
        stage.note = f"headwater verify {view}"

        def waiting(said: str, view: str = view) -> None:
            stage.note = f"headwater verify {view}: {said}" if said else stage.note
            on_wait()

        result = pipeline.command("verify", view, *_WAIT, timeout_s=_VERIFY_S, on_wait=waiting)
        reports.append(
            ViewReport(
                name=view,
                store=STORES[view],
                rows_source=result["source_rows"],
                rows_view=result["view_rows"],
                differences=sum(result[kind] for kind in _WRONG),
                lsn=result["lsn"],
                calm=undisturbed(found, view, live.start, live.end, live.kills),
                overall=freshness(found, view, live.start, live.end),
            )
        )
    return reports
