"""The faults of a seed, and when they come: a plan by seed."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from tests.chaos.faults.capture import FAULTS, TABLE_JOINS, Target
from tests.chaos.faults.stores import WHOLE_FAULTS, drawn

KAFKA_EVERY: Final = 5
"""A broker takes seconds to come back, so it is killed in every fifth seed only."""
_PAUSE_S: Final = 0.8
_WHOLE_PAUSE_S: Final = 4.0
"""Between two faults: batches are applied meanwhile."""
_JOINS_BEFORE: Final = 3
_FIRST: Final = 3
"""So many faults of capture and its servers the whole path has, those that are always drawn among
them."""


class Step(NamedTuple):
    """A fault, how long it lasts (s) where it lasts, and how long to wait before the next, where
    ``streams`` is waited for as well."""

    fault: str
    lasts_s: float
    then_s: float
    streams: bool


def plan(seed: int, whole: bool = False, engine: str = "database") -> list[Step]:
    """The faults of a seed. Capture is always killed once, each server in some seeds; a table joins
    early, so that most faults may meet that. Of the ``whole`` path apply and a store as well, and
    what its ``engine`` alone has."""
    rng = random.Random(f"faults {seed}")
    faults = ["capture killed"]
    if seed % KAFKA_EVERY == 0:
        faults.append("broker killed")
    if seed % 2 == 1:
        faults.append("server killed")
    faults += rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=4 - len(faults) // 2)
    if whole:
        faults = [*faults[:_FIRST], *drawn(rng, engine)]
    rng.shuffle(faults)
    longest_s = _WHOLE_PAUSE_S if whole else _PAUSE_S
    steps = [
        Step(f, rng.choice([0.3, 1.0, 3.5]), rng.uniform(0, longest_s), rng.random() < 0.8)
        for f in faults
    ]
    joins = Step(TABLE_JOINS, 0.0, 0.0, False)
    steps.insert(random.Random(f"joins {seed}").randrange(_JOINS_BEFORE), joins)
    return steps


def apply(step: Step, target: Target) -> None:
    """Do it; stalls go on in the background for as long as the step says."""
    if step.fault in FAULTS:
        FAULTS[step.fault](target, step.lasts_s)
    else:
        assert target.whole is not None, step.fault
        WHOLE_FAULTS[step.fault](target.whole, step.lasts_s)


WEIGHTS: Final[dict[str, float]] = {
    name: 1.0 for name in FAULTS if name not in ("broker killed", "server killed", TABLE_JOINS)
}
KILLS: Final = tuple(name for name in (*FAULTS, *WHOLE_FAULTS) if "killed" in name)
