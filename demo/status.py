"""What the demo knows about itself while it runs: stages, counters, events. State, no output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

State = Literal["waiting", "running", "done", "failed"]


@dataclass(slots=True)
class Stage:
    """One step of the story. ``note`` is what it is doing, or what came of it; ``awaits`` is what
    it waits for now, "" for nothing in particular."""

    title: str
    note: str = ""
    awaits: str = ""
    state: State = "waiting"
    started: float = 0.0
    seconds: float = 0.0

    def elapsed(self) -> float:
        return time.monotonic() - self.started if self.state == "running" else self.seconds


@dataclass(slots=True)
class ViewState:
    """A view as the story sees it: records of its topics not applied yet, None when unknown."""

    name: str
    store: str
    behind: int | None = None


@dataclass(slots=True)
class Board:
    """Everything a display shows."""

    stages: list[Stage]
    views: list[ViewState]
    transactions: int = 0
    planned: int = 0
    rows: int = 0
    events: int | None = None
    happened: list[tuple[float, str]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def stage(self, title: str) -> Iterator[Stage]:
        """Run a stage: it is done when the block ends, failed when it raises."""
        stage = next(stage for stage in self.stages if stage.title == title)
        stage.state, stage.started = "running", time.monotonic()
        try:
            yield stage
        except BaseException:
            stage.seconds, stage.state = stage.elapsed(), "failed"
            raise
        stage.seconds, stage.state = stage.elapsed(), "done"

    def tell(self, what: str) -> None:
        """Note something that happened, with the time since the start."""
        self.happened.append((time.monotonic() - self.started, what))

    def numbers(self) -> tuple[int | None, ...]:
        """All counters: equal as long as nothing moves."""
        behind = (view.behind for view in self.views)
        return (self.transactions, self.rows, self.events, len(self.happened), *behind)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def until(
    condition: Callable[[], bool],
    stall_s: float,
    moved: Callable[[], object],
    on_wait: Callable[[], None],
    late: Callable[[], Exception],
) -> None:
    """Wait for ``condition``, calling ``on_wait`` in between.

    Raises ``late()`` when ``moved()`` has not changed for ``stall_s``: how long work takes depends
    on the machine, that it gets on does not.
    """
    seen, deadline = moved(), time.monotonic() + stall_s
    while not condition():
        now = moved()
        if now != seen:
            seen, deadline = now, time.monotonic() + stall_s
        elif time.monotonic() > deadline:
            raise late()
        on_wait()
        time.sleep(0.05)
