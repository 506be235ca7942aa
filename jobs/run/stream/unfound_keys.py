"""Batches that go on without a view whose keys cannot be found: it stops alone, and says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog

from cdc.log_events import LogEvent
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.state.batch.key_marker import UnfoundKeysError

log = structlog.get_logger("apply")

_T = TypeVar("_T")


def without_unfound(
    generations: GenerationRegistry, passed: Callable[[], None], apply: Callable[[], _T]
) -> _T:
    """What ``apply`` gives, which applies a batch as a whole or not at all. A view whose keys it
    does not find is passed over: who keeps it finds the fault, and makes up for what it missed once
    that is mended; ``passed`` wakes them."""
    while True:
        try:
            return apply()
        except UnfoundKeysError as error:
            name = generations.known.name(error.view)  # "": somebody lets go of it already
            log.warning(LogEvent.VIEW_PASSED_OVER, view=name, error=str(error))
            with generations.changing():
                generations.known.pass_over(error.view, error)
            passed()
