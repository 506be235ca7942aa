"""The order of files, and what a whole run tells of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import durations
from tests.support.durations import Durations, is_whole, told


def reported(file: str, seconds: float) -> Any:
    return SimpleNamespace(nodeid=f"{file}::test", duration=seconds)


def test_files_that_took_longest_come_first_and_each_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "durations.json"
    known.write_text(told(Counter({"a": 2, "b": 7})))
    monkeypatch.setattr(durations, "FILE", known)
    items: Any = [SimpleNamespace(nodeid=one) for one in ("new::1", "a::1", "b::2", "b::1")]
    durations.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["b::2", "b::1", "a::1", "new::1"]


@pytest.mark.parametrize("status", [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED])
def test_only_a_run_that_passed_tells(tmp_path: Path, status: pytest.ExitCode) -> None:
    file = tmp_path / "durations.json"
    made = Durations(file)
    for one in (reported("a", 0.4), reported("b", 3), reported("a", 4.2), reported("c", 0.2)):
        made.pytest_runtest_logreport(one)
    made.pytest_sessionfinish(status)
    assert file.exists() == (status == pytest.ExitCode.OK)
    if file.exists():
        assert file.read_text() == '{\n "a": 5,\n "b": 3\n}\n'


@pytest.mark.parametrize(
    ("args", "options", "whole"),
    [
        (["tests"], {}, True),
        (["tests/unit"], {}, False),
        (["tests"], {"keyword": "views"}, False),
        (["tests"], {"pure": True}, False),
        (["tests"], {"exhaustive": True}, False),
    ],
)
def test_fewer_or_more_tests_are_no_whole_run(
    args: list[str], options: dict[str, Any], whole: bool
) -> None:
    config: Any = SimpleNamespace(args=args, getini=lambda _: ["tests"], getoption=options.get)
    assert is_whole(config) == whole
