"""The end of the story: each view compared with the source, and how fresh it was all along."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cdc.errors import FatalError
from demo.board import Stage
from demo.freshness import Window, batches, freshness, undisturbed
from demo.pipeline import Pipeline
from demo.report import ViewReport
from demo.setting import STORES, VIEWS

_VERIFY_S = 180.0


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
    found = list(batches(pipeline.job_logs()))
    reports = []
    for view in VIEWS:
        stage.note = f"headwater verify {view}"
        result = _verify(pipeline, view, on_wait)
        reports.append(
            ViewReport(
                name=view,
                store=STORES[view],
                rows_source=result["rows_source"],
                rows_view=result["rows_view"],
                differences=result["differences"],
                lsn=result["lsn"],
                calm=undisturbed(found, view, live.start, live.end, live.kills),
                overall=freshness(found, view, live.start, live.end),
            )
        )
    return reports


def _verify(pipeline: Pipeline, view: str, on_wait: Callable[[], None]) -> dict[str, Any]:
    printed = pipeline.command("verify", view, "--json", timeout_s=_VERIFY_S, on_wait=on_wait)
    try:
        result: dict[str, Any] = json.loads(printed)
    except json.JSONDecodeError:
        raise FatalError(f"headwater verify {view} printed no JSON") from None
    return result
