"""What the demo prints where there is no terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from demo.display import PlainDisplay, counters
from demo.status import Board, Stage, ViewState


def board(behind: int | None = None) -> Board:
    return Board([Stage("views"), Stage("traffic")], [ViewState("flights", "lake", behind)])


def test_off_a_terminal_an_unchanged_state_is_told_each_half_minute() -> None:
    now, stream, shown = [0.0], StringIO(), board(5)
    display = PlainDisplay(Console(file=stream, width=200), shown, lambda: now[0])
    with shown.stage("views") as stage:
        stage.awaits = "flights to apply what is committed"
        for second in range(121):
            now[0] = float(second)
            display.refresh()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "views ..."
    assert len(lines) == 5
    assert all("waiting for flights to apply what is committed" in line for line in lines[1:])


def test_off_a_terminal_something_new_is_told_within_seconds_and_counters_are_nothing_new() -> None:
    now, stream, shown = [0.0], StringIO(), board(1_000)
    display = PlainDisplay(Console(file=stream, width=200), shown, lambda: now[0])
    with shown.stage("views") as stage:
        for second in range(29):
            now[0] = float(second)
            shown.views[0].behind = 1_000 - second
            stage.note = "reading" if second < 12 else "writing"
            display.refresh()
    told = [line.split(" ", 3)[3] for line in stream.getvalue().splitlines()[1:]]
    assert told == ["writing · records in Kafka left to read: flights 988"]


def test_a_stage_that_ends_tells_its_time() -> None:
    stream, shown = StringIO(), board()
    display = PlainDisplay(Console(file=stream, width=200), shown)
    with shown.stage("traffic") as stage:
        display.refresh()
        stage.note = "two kill -9"
    display.stop()
    first, last = stream.getvalue().splitlines()
    assert first == "traffic ..."
    assert last.startswith("traffic done in ")
    assert last.endswith(": two kill -9")


def test_views_that_have_read_all_are_not_counted() -> None:
    assert counters(board(0)) == "working"
    assert counters(board(7)) == "records in Kafka left to read: flights 7"
