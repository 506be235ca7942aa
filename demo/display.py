"""How the demo shows itself: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from demo.status import Board, Stage

EVENTS_SHOWN = 10
_NEWS_EVERY_S = 5.0
"""Off a terminal: what is being done, if it has changed, is told this often at most."""
_PLAIN_EVERY_S = 30.0
"""The same with the counters, changed or not."""
_MARKS = {"waiting": ("·", "dim"), "done": ("✓", "green"), "failed": ("✗", "red")}


class Display(Protocol):
    """Shows a board; ``refresh`` is called some ten times a second."""

    def start(self) -> None: ...
    def refresh(self) -> None: ...
    def stop(self) -> None: ...


def display_for(console: Console, board: Board) -> Display:
    """The display that fits where the output goes."""
    return TerminalDisplay(console, board) if console.is_terminal else PlainDisplay(console, board)


class TerminalDisplay:
    """The board, redrawn in place."""

    def __init__(self, console: Console, board: Board) -> None:
        self._board = board
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console,
            get_renderable=self._picture,
            refresh_per_second=8,
            vertical_overflow="crop",
        )

    def start(self) -> None:
        self._live.start()

    def refresh(self) -> None:
        """Nothing to do: the picture redraws itself from the board."""

    def stop(self) -> None:
        self._live.stop()

    def _picture(self) -> RenderableType:
        return picture(self._board, self._spinner)


class PlainDisplay:
    """A line when a stage starts or ends, when something happens and when something else is done;
    besides what is awaited, and counters, every half minute."""

    def __init__(
        self, console: Console, board: Board, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._board = board
        self._states: dict[str, str] = {}
        self._told = 0
        self._now = now
        self._line_at = now()
        self._doing: list[str] = []

    def start(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        for at, what in self._board.happened[self._told :]:
            self._line(f"  {clock(at)} {what}")
        self._told = len(self._board.happened)
        for stage in self._board.stages:
            if stage.state != self._states.get(stage.title, "waiting"):
                self._line(_plain_stage(stage))
                self._line_at, self._doing = self._now(), doing(self._board)
            self._states[stage.title] = stage.state
        waited_s, now_doing = self._now() - self._line_at, doing(self._board)
        is_new = now_doing != self._doing and waited_s >= _NEWS_EVERY_S
        if is_new or waited_s >= _PLAIN_EVERY_S:
            self._line_at, self._doing = self._now(), now_doing
            self._line(f"  {clock(self._board.seconds)} {progress(self._board)}")

    def stop(self) -> None:
        self.refresh()

    def _line(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)


def picture(board: Board, spinner: Spinner) -> RenderableType:
    """Stages, counters, views and the last events, top to bottom."""
    parts: list[RenderableType] = [Text(), _stages(board, spinner)]
    if any(stage.state == "running" and stage.title == "traffic" for stage in board.stages):
        bar = ProgressBar(total=max(1, board.planned), completed=board.transactions, width=60)
        parts.append(Padding(bar, (1, 0, 0, 4)))
    if board.planned or board.events is not None:
        parts += [Text(), _numbers(board)]
    if board.happened:
        events = Text("\n").join(
            Text.assemble((f"    {clock(at)}  ", "dim"), what)
            for at, what in board.happened[-EVENTS_SHOWN:]
        )
        parts += [Text(), events]
    return Group(*parts, Text())


def counters(board: Board) -> str:
    """The counters as one plain line."""
    parts = []
    if board.planned:
        parts.append(f"{board.transactions:,} of {board.planned:,} transactions")
    if board.events is not None:
        parts.append(f"{board.events:,} events in Kafka")
    left = [f"{view.name} {view.behind:,}" for view in board.views if view.behind]
    if left:
        parts.append(f"records in Kafka left to read: {', '.join(left)}")
    return " · ".join(parts) or "working"


def doing(board: Board) -> list[str]:
    """What the stage at work does now, and what it waits for; figures change too often to tell."""
    running = (stage for stage in board.stages if stage.state == "running")
    return [one for stage in running for one in _doing(stage)]


def _doing(stage: Stage) -> list[str]:
    awaits = f"waiting for {stage.awaits}" if stage.awaits and stage.state == "running" else ""
    return [one for one in (stage.note, awaits) if one]


def progress(board: Board) -> str:
    """The same, and the counters."""
    return " · ".join([*doing(board), counters(board)])


def clock(seconds: float) -> str:
    """``mm:ss`` since the start."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def _stages(board: Board, spinner: Spinner) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=3, justify="right")
    grid.add_column(width=16)
    grid.add_column(width=64, overflow="ellipsis", no_wrap=True)
    grid.add_column(justify="right", width=8)
    for stage in board.stages:
        mark: RenderableType = spinner
        style = "bold"
        if stage.state != "running":
            sign, style = _MARKS[stage.state]
            mark = Text(sign, style=style)
        shown = "" if stage.state == "waiting" else f"{stage.elapsed():.1f} s"
        title = Text(stage.title, style="" if stage.state == "done" else style)
        note = Text(" · ".join(_doing(stage)), style="dim")
        grid.add_row(mark, title, note, Text(shown, style="dim"))
    return grid


def _numbers(board: Board) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=3)
    grid.add_column(width=30)
    grid.add_column(justify="right", width=16)
    rows: list[tuple[str, str]] = []
    if board.planned:
        done = f"{board.transactions:,} of {board.planned:,}"
        rows += [("transactions", done), ("rows changed", f"{board.rows:,}")]
    if board.events is not None:
        rows.append(("events in Kafka", f"{board.events:,}"))
    for view in board.views:
        behind = "" if view.behind is None else f"{view.behind:,}"
        rows.append((f"{view.name}, records left", behind))
    for name, value in rows:
        grid.add_row("", Text(name, style="dim"), value)
    return grid


def _plain_stage(stage: Stage) -> str:
    if stage.state == "running":
        return f"{stage.title} ..."
    outcome = "done" if stage.state == "done" else "FAILED"
    note = f": {stage.note}" if stage.note else ""
    return f"{stage.title} {outcome} in {stage.seconds:.1f} s{note}"
