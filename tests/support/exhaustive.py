"""Exhaustive tests: every combination of what is tested one by one in the suite.

A test, or a case of one, that is marked ``exhaustive`` is left out unless ``pytest --exhaustive``
runs it beside all others. What belongs there: CONTRIBUTING.md, "Write tests".
"""

from __future__ import annotations

import pytest


def is_exhaustive(item: pytest.Item) -> bool:
    """Whether a test is no part of the suite."""
    return item.get_closest_marker("exhaustive") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="also tests of every combination")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "exhaustive: runs with --exhaustive only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is exhaustive, unless that is asked for."""
    if not config.getoption("--exhaustive"):
        config.hook.pytest_deselected(items=[item for item in items if is_exhaustive(item)])
        items[:] = [item for item in items if not is_exhaustive(item)]
