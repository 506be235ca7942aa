"""The state of capture and of each view: exactly one at a time, by one table of rules. Pure.

The rules are asked in order, and the first that holds decides, so that a cause hides its
consequences: a view that is blocked is not called stalled, too. The last rule always holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FRESH_S: Final = 10.0
"""What is this little behind is fresh: stores are written every few seconds."""
STALLED_S: Final = 30.0
"""Work that has waited longer, while nothing moved, has stalled."""


class State(StrEnum):
    """What one word says of a view, or of capture."""

    IDLE = "idle"
    """All that was committed is applied."""
    FRESH = "fresh"
    """Changes are under way, the oldest for less than ``FRESH_S``."""
    CATCHING_UP = "catching up"
    FALLING_BACK = "falling back"
    STALLED = "stalled"
    """There is work, and nothing has moved for ``STALLED_S``."""
    BLOCKED = "blocked"
    """It cannot go on before somebody acts; what blocks it is named beside the state."""
    SOURCE_UNKNOWN = "source unknown"
    """Nobody can say what the source has committed: the figures say how far behind it is at
    least."""
    NO_DATA = "no data"
    """Nothing was measured."""


GOOD: Final = frozenset({State.IDLE, State.FRESH})
"""Only these are shown in green. Of what is not known, nothing is."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What states are judged by.

    ``behind`` is the work that is left, in records or bytes; ``lag_s`` the age of the oldest commit
    that is not applied; ``stuck_s`` for how long there has been work and nothing moved; ``gain``
    by how much the work that is left shrinks in a second, None while that is not known.
    """

    measured: bool
    blocked: bool
    source_known: bool
    behind: int
    lag_s: float
    stuck_s: float
    gain: float | None


RULES: Final[tuple[tuple[State, Callable[[Evidence], bool]], ...]] = (
    (State.BLOCKED, lambda one: one.blocked),
    (State.NO_DATA, lambda one: not one.measured),
    (State.STALLED, lambda one: one.stuck_s > STALLED_S),
    (State.SOURCE_UNKNOWN, lambda one: not one.source_known),
    (State.IDLE, lambda one: one.behind == 0 and one.lag_s == 0),
    (State.FRESH, lambda one: one.lag_s <= FRESH_S),
    (State.FALLING_BACK, lambda one: one.gain is not None and one.gain <= 0),
    (State.CATCHING_UP, lambda _: True),
)


def state_of(evidence: Evidence) -> State:
    """The one state. Pure."""
    return next(state for state, holds in RULES if holds(evidence))
