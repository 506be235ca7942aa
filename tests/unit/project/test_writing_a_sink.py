"""What docs/writing-a-sink.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/writing-a-sink.md").read_text(encoding="utf-8")
CODE = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("cdc", "jobs", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
NAMED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))


@pytest.mark.parametrize("name", [name for name in NAMED if re.fullmatch(r"[\w/]+/[\w/.]*", name)])
def test_a_file_is_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize(
    "name", [name for name in NAMED if re.fullmatch(r"_*[A-Za-z]+[_A-Z][\w.]*", name)]
)
def test_a_name_is_defined(name: str) -> None:
    last = name.rpartition(".")[2]
    assert re.search(rf"(def|class) {last}\b|^{last}\b.*=|\"{last}\"", CODE, re.MULTILINE), name
