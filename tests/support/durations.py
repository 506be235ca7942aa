"""How long each file of tests takes: a whole run writes it, and begins with what took longest.

Lanes take whole files, so that what is long must not come last: one lane would wait for it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

FILE: Final = Path(__file__).parents[1] / "durations.json"
"""Seconds by file, of files that take a second or longer."""
_LEAST_S: Final = 1.0
_FEWER: Final = ("pure", "keyword", "markexpr", "deselect", "lf", "last_failed", "collectonly")
_MORE: Final = ("exhaustive",)


def file_of(nodeid: str) -> str:
    """The file of a test, from the repository's root."""
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by how long they took; those that nobody knows come last, in their order."""
    known: dict[str, float] = json.loads(FILE.read_text()) if FILE.exists() else {}
    items.sort(key=lambda item: -known.get(file_of(item.nodeid), 0.0))


def pytest_configure(config: pytest.Config) -> None:
    """Only who starts the lanes has the reports of both."""
    if not hasattr(config, "workerinput") and is_whole(config):
        config.pluginmanager.register(Durations(FILE), "durations of files")


def is_whole(config: pytest.Config) -> bool:
    """Whether the tests that are run are those of the suite, no fewer and no more."""
    whole = list(config.args) == list(config.getini("testpaths"))
    return whole and not any(config.getoption(name, None) for name in (*_FEWER, *_MORE))


class Durations:
    """Adds up the seconds of each file, and writes them when all tests have passed."""

    def __init__(self, file: Path) -> None:
        self._file, self._seconds = file, Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of a setup, a call or a teardown."""
        self._seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A run that fails waits for what does not come: it says nothing of the next one."""
        if exitstatus == pytest.ExitCode.OK:
            self._file.write_text(told(self._seconds), encoding="utf-8")


def told(seconds: Counter[str]) -> str:
    """The file's text: whole seconds, so that it changes where something has changed."""
    longest = {name: round(s) for name, s in seconds.most_common() if s >= _LEAST_S}
    return json.dumps(longest, indent=1) + "\n"
