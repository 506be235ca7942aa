"""Builds of views while they run: a line for each step, on a terminal a bar for what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID


class Progress:
    """``bootstrap.run.Teller`` on a console. Bars are gone when their snapshot is read."""

    def __init__(self, console: Console) -> None:
        from rich import progress

        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.completed:,} rows"),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    def step(self, view: str, what: str) -> None:
        task_id = self._tasks.pop(view, None)
        if task_id is not None:
            self._bars.remove_task(task_id)
        self._console.print(f"{view}: {what}", style="dim", soft_wrap=True)

    def reading(self, view: str, rows: int, expected: int) -> None:
        if not self._console.is_terminal:
            return
        self._bars.start()
        task_id = self._tasks.get(view)
        if task_id is None:
            task_id = self._tasks[view] = self._bars.add_task(view, total=None, rate="")
        (task,) = (task for task in self._bars.tasks if task.id == task_id)
        rate = f"{task.speed:,.0f}/s" if task.speed else ""
        total = max(rows, expected) if expected else None
        self._bars.update(task_id, completed=rows, total=total, rate=rate)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bars.live.is_started:
            self._bars.stop()
