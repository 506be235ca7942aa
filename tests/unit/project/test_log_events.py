"""docs/logs.md knows each event that the product logs, and nothing logs another one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cdc.log_events import LogEvent

ROOT: Final = Path(__file__).parents[3]
ROOMS: Final = ("cdc", "snapshots", "views", "migrations", "jobs", "bootstrap", "verification")
PAGE: Final = (ROOT / "docs/logs.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| `(\w+)` \| ([\w, ]+) \| (.+) \| (.+) \|$", re.MULTILINE)
LEVELS: Final = {"debug", "info", "warning", "error"}


@cache
def nodes() -> list[tuple[Path, ast.Call | ast.Attribute]]:
    return [
        (path, node)
        for room in (*ROOMS, "headwater")
        for path in sorted((ROOT / room).rglob("*.py"))
        if "log" in (text := path.read_text("utf-8")) and path.name != "log_events.py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Attribute)
    ]


def logged() -> Iterator[tuple[Path, str, ast.expr]]:
    """The file, level and event of each line that is logged."""
    for path, node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            logger = ast.unparse(node.func.value)
            if node.func.attr in LEVELS and (logger == "log" or "get_logger" in logger):
                yield path, node.func.attr, node.args[0]


def test_no_event_is_a_text_of_its_own() -> None:
    events = [(path, event) for path, _, event in logged()]
    assert len(events) > len(LogEvent)
    assert [str(path) for path, event in events if isinstance(event, ast.Constant)] == []


def test_the_page_has_each_event_that_is_logged_with_its_levels() -> None:
    levels = defaultdict(set)
    for _, level, event in logged():
        if isinstance(event, ast.Attribute) and ast.unparse(event.value) == "LogEvent":
            levels[LogEvent[event.attr].value].add(level)
    named = {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "LogEvent"
    }
    assert named == set(LogEvent.__members__)
    told = {name: set(said.split(", ")) for name, said, _, _ in ROW.findall(PAGE)}
    assert list(told) == [event.value for event in LogEvent], "in the order of LogEvent"
    assert {name: told[name] for name in levels} == levels
