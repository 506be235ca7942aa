"""``pytest --pure`` runs what needs no JVM and no server; a test of these that starts one fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
import os, subprocess, sys
import pytest

@pytest.fixture
def spark():
    return "a session"

@pytest.fixture
def over(spark):
    return spark

def test_plain():
    assert subprocess.run([sys.executable, "-c", ""]).returncode == 0

def test_that_asks_for_a_version():
    with pytest.raises(FileNotFoundError):
        subprocess.run(["/nowhere/postgres", "--version"])

def test_whose_child_looks_for_java():
    assert not os.path.exists(os.path.join(os.environ["JAVA_HOME"], "bin", "java"))

def test_over_a_fixture(over):
    pass

@pytest.mark.server
def test_marked():
    pass

def test_that_starts_java():
    subprocess.run(["/nowhere/java", "-jar", "broker.jar"])

def test_that_starts_postgres_by_a_shell():
    subprocess.Popen(["/bin/sh", "/nowhere/postgres"])

def test_that_asks_late(request):
    request.getfixturevalue("over")
"""
PASSED = ("test_plain", "test_that_asks_for_a_version", "test_whose_child_looks_for_java")
FAILED = {
    "test_that_starts_java": "starts java",
    "test_that_starts_postgres_by_a_shell": "starts postgres",
    "test_that_asks_late": "uses the fixture spark",
}


def test_what_starts_something_is_left_out_if_it_says_so_and_fails_if_not(tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.pure", "--pure", "-rA"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert f"{len(FAILED)} failed, {len(PASSED)} passed, 2 deselected" in said[-1], done.stdout
    for name in PASSED:
        assert f"PASSED test_these.py::{name}" in said
    for name, why in FAILED.items():
        (line,) = [one for one in said if one.startswith(f"FAILED test_these.py::{name} - ")]
        assert line.endswith(f"::{name} is pure, and {why}")
