"""Builds of views while they run: a line for each step, on a terminal a bar for the one at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli.common.row_counts import tell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Task, TaskID


class Progress:
    """``bootstrap.process.Teller`` on a console. A bar stands until its view's next step, and moves
    to and fro where nobody knows how much there is to do."""

    def __init__(self, console: Console) -> None:
        from rich import progress

        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[read]}"),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )

    def step(self, view: str, what: str) -> None:
        task_id = self._tasks.pop(view, None)
        if task_id is not None:
            self._bars.remove_task(task_id)
        self._console.print(f"{view}: {what}", style="dim", soft_wrap=True)
        self._bar(view)

    def reading(self, view: str, rows: int, expected: int) -> None:
        tell(rows, expected)
        task = self._bar(view)
        if task is None:
            return
        rate = f"  {task.speed:,.0f}/s" if task.speed else ""
        left = "" if task.time_remaining is None else f"{task.time_remaining:,.0f} s left"
        total = max(rows, expected) if expected else None
        read = f"{rows:,} rows{rate}"
        self._bars.update(task.id, completed=rows, total=total, read=read, left=left)

    def done(self, view: str) -> None:
        """Nothing more is done with this view."""
        task_id = self._tasks.pop(view, None)
        if task_id is not None:
            self._bars.remove_task(task_id)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bars.live.is_started:
            self._bars.stop()

    def _bar(self, view: str) -> Task | None:
        """The bar of a view, made if it has none; none where nobody looks."""
        if not self._console.is_terminal:
            return None
        self._bars.start()
        task_id = self._tasks.get(view)
        if task_id is None:
            task_id = self._bars.add_task(view, total=None, read="", left="")
            self._tasks[view] = task_id
        return next(task for task in self._bars.tasks if task.id == task_id)
