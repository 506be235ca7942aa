"""``docs/guarantees.md`` names tests of the suite, and every one of the 54 ways has its line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCUMENT = (TESTS.parent / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:unit|simulation|integration|acceptance)/[\w/]+\.py)::(\w+)`")
WAYS = 54


def defined(file: str) -> set[str]:
    """The tests of a file that the suite runs, in at least one case."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in found if not any(map(exhaustive, node.decorator_list))}


def exhaustive(decorator: ast.expr) -> bool:
    return ast.unparse(decorator) == "pytest.mark.exhaustive"


def rows(heading: str) -> list[str]:
    """The rows of the tables below a heading."""
    section = DOCUMENT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE)
    return [row for table in tables for row in table.splitlines()[2:]]


def test_every_test_it_names_is_in_the_suite() -> None:
    named = NAMED.findall(DOCUMENT)
    assert len(named) == DOCUMENT.count("::test_")
    assert [f"{file}::{test}" for file, test in named if test not in defined(file)] == []


def test_every_promise_names_a_test() -> None:
    promises = rows("Promised")
    assert promises
    assert [row for row in promises if not NAMED.search(row)] == []


def test_every_way_to_lose_changes_has_a_test_or_a_reason() -> None:
    ways = [
        row.strip("| ").split(" | ") for row in rows("54 ways in which changes were lost elsewhere")
    ]
    assert [int(number) for number, *_ in ways] == list(range(1, WAYS + 1))
    for number, _, here in ways:
        excused = "not yet" in here or "not applicable" in here or "events.md" in here
        assert excused or NAMED.search(here), number
