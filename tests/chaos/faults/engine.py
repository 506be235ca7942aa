"""What is done to ``headwater apply`` where a state database keeps its views: killed between two
steps, its state database killed, away, lost or replaced, views declared, built and dropped."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.chaos.faults.step_kills import BUILDING, STEPS
from tests.chaos.servers.service import ServiceError
from tests.chaos.views.consumer_groups import beyond, ends, told_to_groups
from tests.chaos.views.declarations import STORES
from tests.chaos.views.whole_path import WholePath

Fault = Callable[[WholePath, float], None]
_KILLED: Final = "apply killed {}"
_LOST: Final = b'"event": "state_database_lost"'
_TOLD_S: Final = 300.0
_ENDS_S: Final = 120.0


def _at_step(step: str, store: str, whole: WholePath, lasts_s: float) -> None:
    """The step's first times are while apply catches up, later ones while it follows."""
    whole.kill_apply_at(step, store, 1 + round(lasts_s * 3))


def _building(step: str, whole: WholePath, _lasts_s: float) -> None:
    whole.kill_apply_building(step)


def _state_killed(whole: WholePath, lasts_s: float) -> None:
    whole.state.kill(lasts_s, whole.pause)


def _state_away(whole: WholePath, lasts_s: float) -> None:
    whole.state.away(lasts_s, whole.pause)


def _state_killed_with_apply(whole: WholePath, lasts_s: float) -> None:
    whole.apply.kill()
    whole.state.kill(0.0, whole.pause)
    whole.pause(lasts_s)
    whole.apply.start()


def _state_lost(whole: WholePath, _lasts_s: float) -> None:
    """It is gone when apply starts again."""
    whole.apply.await_ready()
    applied = bool(told_to_groups(whole.deployment, whole.current()))
    whole.apply.kill()
    _begin_anew(whole, applied)


def _begin_anew(whole: WholePath, applied: bool) -> None:
    """Apply says that all is gone, and builds views anew."""
    whole.state.lose()
    whole.apply.start()
    whole.apply.await_ready()
    if applied and _LOST not in whole.apply.said():
        raise ServiceError("apply does not say that its state database was lost")


def _state_restored(whole: WholePath, _lasts_s: float) -> None:
    """A copy that lacks what was applied since is refused, and an empty state is the way on."""
    whole.apply.await_ready()
    whole.apply.stop()
    before = ends(whole.deployment, whole.current())
    whole.state.copy()
    whole.apply.start()
    deadline = time.monotonic() + _TOLD_S
    while not beyond(told_to_groups(whole.deployment, whole.current()), before):
        whole.pause(0.2)
        if time.monotonic() > deadline:
            raise ServiceError("apply does not tell groups of anything that it applied")
    whole.apply.kill()
    whole.state.restore()
    whole.apply.start(ends=True)
    said = whole.apply.await_end(whole.pause, _ENDS_S)
    if "older copy" not in said:
        raise ServiceError(f"apply took an older copy of its state database: {said}")
    _begin_anew(whole, applied=True)


def _created(whole: WholePath, lasts_s: float) -> None:
    whole.create(lasts_s)


def _dropped(whole: WholePath, lasts_s: float) -> None:
    whole.drop_and_declare(lasts_s)


STEP_FAULTS: Final[dict[str, Fault]] = {
    _KILLED.format(name.format(store)): partial(_at_step, name, store)
    for name, step in STEPS.items()
    for store in (STORES if step.of_store else ("",))
}
STATE_FAULTS: Final[dict[str, Fault]] = {
    "state database killed": _state_killed,
    "state database away": _state_away,
    "state database killed with apply": _state_killed_with_apply,
    "state database lost": _state_lost,
    "older state database restored": _state_restored,
}
VIEW_FAULTS: Final[dict[str, Fault]] = {
    "view created": _created,
    "view dropped and declared again": _dropped,
    **{_KILLED.format(name): partial(_building, name) for name in BUILDING},
}
ENGINE_FAULTS: Final[dict[str, Fault]] = {**STEP_FAULTS, **STATE_FAULTS, **VIEW_FAULTS}


def drawn_for_engine(rng: random.Random) -> list[str]:
    """Of a seed: apply killed at a step, the state database, and the views of it."""
    return [rng.choice(list(kind)) for kind in (STEP_FAULTS, STATE_FAULTS, VIEW_FAULTS)]
