"""``headwater apply`` that kills itself, with SIGKILL, at a step (``die_as_told``).

``CHAOS_STEP`` names the step, the kind of store it is of where it is of one, and which time it is
that the process does not outlive. What it has started goes with it, as with ``kill -9`` of all.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Final, NamedTuple

VARIABLE: Final = "CHAOS_STEP"


class Step(NamedTuple):
    """Before or behind a method, as ``module:Class.method``. ``of_store``: it is a method of
    ``ViewKeeper``, and only one whose view is in a given store counts. ``half``: what it was to
    write is written by half."""

    method: str
    behind: bool
    of_store: bool = False
    half: bool = False


_KEEPER: Final = "jobs.run.views.view_keeper:ViewKeeper"
STEPS: Final[dict[str, Step]] = {
    "before a batch": Step("jobs.run.stream.batches:Batches.apply", False),
    "behind a batch": Step("jobs.run.stream.batches:Batches.apply", True),
    "before rows go to {}": Step(f"{_KEEPER}._write", False, True),
    "amid rows going to {}": Step(f"{_KEEPER}._write", False, True, half=True),
    "behind rows gone to {}": Step(f"{_KEEPER}._write", True, True),
    "behind a turn of {}": Step(f"{_KEEPER}._settle", True, True),
    "before offsets are told": Step("jobs.run.views.group_offsets:GroupOffsets.commit", False),
    "behind offsets told": Step("jobs.run.views.group_offsets:GroupOffsets.commit", True),
}
"""Between any two of them in their order nothing is done that outlives the process."""
BUILDING: Final[dict[str, Step]] = {
    "behind a generation begun": Step("jobs.run.builds.view_build:ViewBuild._begun", True),
    "behind a generation loaded": Step("jobs.run.builds.view_build:ViewBuild._loaded", True),
    "before a generation is shown": Step(
        "jobs.run.views.view_registry:ViewRegistry._switch", False
    ),
    "behind a generation shown": Step("jobs.run.views.view_registry:ViewRegistry._switch", True),
}
ALL: Final = {**STEPS, **BUILDING}


def told(step: str, store: str, times: int) -> str:
    """The variable's value."""
    return f"{step}|{store}|{times}"


def replaced(
    method: Callable[..., Any], step: Step, store: str, times: int, die: Callable[[], None]
) -> Callable[..., Any]:
    """``method``, which calls ``die`` as the step says."""
    counting, left = threading.Lock(), [times]

    def count(keeper: Any, *arguments: Any) -> None:
        if step.of_store and not type(keeper.store.sink).__module__.startswith(
            f"jobs.sinks.{store}"
        ):
            return
        with counting:
            left[0] -= 1
            if left[0] == 0:
                if step.half:
                    changes, progress = arguments
                    keeper.store.write(changes[: (len(changes) + 1) // 2], progress)
                die()

    @wraps(method)
    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        if not step.behind:
            count(self, *arguments)
        result = method(self, *arguments, **named)
        if step.behind:
            count(self)
        return result

    return dying


def die_as_told() -> None:
    """In the process of a command."""
    if (said := os.environ.pop(VARIABLE, None)) is None:
        return
    name, store, times = said.split("|")
    step = ALL[name]
    module, path = step.method.split(":")
    owner, method = path.split(".")
    class_ = getattr(import_module(module), owner)
    setattr(class_, method, replaced(getattr(class_, method), step, store, int(times), _die))


def _die() -> None:
    sys.stderr.flush()
    os.killpg(0, signal.SIGKILL)
