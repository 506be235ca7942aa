"""The live generation of a view, held by a command that writes beside its stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc.errors import ViewError
from jobs.generations.generation_record import read_generations
from jobs.generations.view_locks import BUSY_S, taken_over, turn


@contextmanager
def live_held(directory: Path, wait_s: float, number: int) -> Iterator[None]:
    """Nobody else writes generation ``number`` until the block ends. Whoever applies its stream
    lets go of it, and goes on afterwards.

    Raises ``ViewError`` when another command works on the view, or another generation is live.
    """
    with turn(directory, "build", BUSY_S), taken_over(directory, wait_s):
        found = read_generations(directory)
        if found.switching is not None:
            raise ViewError(
                f"view {directory.name}: a switch was interrupted",
                "run `headwater apply` or `headwater view rebuild` to finish it, then try again",
            )
        if found.live_number != number:
            raise ViewError(
                f"view {directory.name}: another generation has become live", "try again"
            )
        yield
