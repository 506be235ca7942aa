"""Pure tests: those that need no JVM and no server. ``pytest --pure`` runs no others.

A test outside of ``tests/integration`` and ``tests/acceptance`` is pure unless a fixture that it
asks for, directly or through others, starts a server or Spark, or it is marked ``server`` because
it starts one by itself. A pure test that starts one fails: its fixtures and processes are watched,
and ``--pure`` hides Java from all that it starts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

STARTING: Final = frozenset({"stack_home", "spark"})
"""The fixtures that all servers and Spark come from."""
SERVERS: Final = frozenset({"java", "spark-submit", "postgres", "initdb", "redis-server"})
"""The names of programs that are servers, or start one. To ask one for its version starts none."""
_VERSION: Final = frozenset({"-version", "--version", "-V"})
_STARTS: Final = frozenset({"subprocess.Popen", "os.posix_spawn"})
_WITH_SERVERS: Final = frozenset({"integration", "acceptance"})
_NOWHERE: Final = "/no-java-in-pure-tests"


class _Watch:
    """The pure test that runs now, if any."""

    running: str | None = None


def is_pure(item: pytest.Item) -> bool:
    """Whether a test needs neither a JVM nor a server; none of the integration tests is taken for
    one."""
    if _WITH_SERVERS & set(item.path.parts):
        return False
    asked: list[str] = getattr(item, "fixturenames", [])
    return STARTING.isdisjoint(asked) and item.get_closest_marker("server") is None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pure", action="store_true", help="only tests without a JVM and servers")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "server: starts a JVM or a server by itself")
    sys.addaudithook(_watch)
    if config.getoption("--pure"):
        os.environ["JAVA_HOME"] = _NOWHERE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not pure, if that is asked for."""
    if config.getoption("--pure"):
        config.hook.pytest_deselected(items=[item for item in items if not is_pure(item)])
        items[:] = [item for item in items if is_pure(item)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Watch a pure test, with its setup and teardown."""
    _Watch.running = item.nodeid if is_pure(item) else None
    try:
        return (yield)
    finally:
        _Watch.running = None


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> None:
    """A fixture that is asked for by name while the test runs is not among those it declares."""
    if _Watch.running is not None and fixturedef.argname in STARTING:
        pytest.fail(f"{_Watch.running} is pure, and uses the fixture {fixturedef.argname}")


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _Watch.running is None or event not in _STARTS:
        return
    program, command = arguments[:2]
    given = [program, *([command] if isinstance(command, str | bytes) else command)]
    words = {Path(os.fsdecode(word)).name for word in given if word is not None}
    if (found := SERVERS & words) and not _VERSION & words:
        pytest.fail(f"{_Watch.running} is pure, and starts {', '.join(sorted(found))}")
