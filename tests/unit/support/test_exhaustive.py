"""What is marked ``exhaustive`` runs if it is asked for, and is no part of the suite otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

def test_of_the_suite():
    pass

@pytest.mark.parametrize("store", ["one", pytest.param("other", marks=pytest.mark.exhaustive)])
def test_of_each_store(store):
    pass

@pytest.mark.exhaustive
def test_of_all_combinations():
    pass
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "2 passed, 2 deselected"),
        (("--exhaustive",), "4 passed"),
        (("-n", "1"), "2 passed"),
    ],
)
def test_marked_tests_and_cases_run_only_when_they_are_asked_for(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "test_these.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.exhaustive", *options]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f" {said} in " in done.stdout.splitlines()[-1], done.stdout
