"""How modules of ours are named in the wheel: ``setup.py`` renames what it can, and refuses what it
cannot."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

below: Callable[[str], str] = runpy.run_path(str(Path(__file__).parents[3] / "setup.py"))["below"]


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ("from cdc.lsn import Lsn\n", "from headwater.cdc.lsn import Lsn\n"),
        ("    from jobs import spark\n", "    from headwater.jobs import spark\n"),
        ('A = "jobs.spark.jars"\n', 'A = "headwater.jobs.spark.jars"\n'),
        ('A = "jobs.nowhere"\n', 'A = "jobs.nowhere"\n'),
        ("from headwater import client\n", "from headwater import client\n"),
    ],
)
def test_imports_and_strings_that_name_a_module_are_renamed(written: str, built: str) -> None:
    assert below(written) == built


@pytest.mark.parametrize(
    "line",
    ["import cdc\n", "import jobs.spark\n", 'A = "import sys; from jobs.spark import x; x()"\n'],
)
def test_what_cannot_be_renamed_fails_the_build(line: str) -> None:
    with pytest.raises(ValueError, match="write `from PACKAGE import NAME`"):
        below(line)
