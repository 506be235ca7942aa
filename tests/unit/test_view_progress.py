"""What a person sees of builds."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from cdc.cli.view_progress import Progress


def test_a_bar_shows_how_much_is_read_until_the_next_step() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100)
    progress = Progress(console)
    progress.step("a", "snapshot 1 of public.orders")
    progress.reading("a", 2_500, 10_000)
    progress.reading("b", 10, 0)
    progress._bars.refresh()
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "25%" in shown
    assert "2,500 rows" in shown
    progress.step("a", "loading 10,000 rows into delta")
    console.file.truncate(0)
    progress._bars.refresh()
    assert "2,500 rows" not in console.file.getvalue()
    assert "10 rows" in console.file.getvalue()
    progress.close()


def test_more_rows_than_expected_are_no_more_than_all() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100)
    progress = Progress(console)
    progress.reading("a", 300, 100)
    progress._bars.refresh()
    progress.close()
    assert isinstance(console.file, StringIO)
    assert "100%" in console.file.getvalue()


def test_a_pipe_gets_lines_alone() -> None:
    console = Console(file=StringIO(), width=100)
    progress = Progress(console)
    progress.reading("a", 300, 1_000)
    progress.step("a", "generation 1 is live")
    progress.close()
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == "a: generation 1 is live\n"
