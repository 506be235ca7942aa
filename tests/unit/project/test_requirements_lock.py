"""What is installed is what was locked: each file by its hash, whatever machine it is for."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PINNED = re.compile(r"(?P<name>[a-z0-9._-]+(?:\[[a-z,]+\])?)==(?P<version>\S+)(?: ; .+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def test_each_package_is_pinned_by_the_hashes_of_its_files_and_no_registry_is_named() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="ascii")
    assert "://" not in text
    entries = [one.split(" \\\n    ") for one in re.split(r"\n(?=\S)", text.rstrip("\n"))]
    assert len(entries) > 80
    for pinned, *hashes in entries:
        assert PINNED.fullmatch(pinned), pinned
        assert hashes, f"{pinned} has no hash"
        assert all(HASH.fullmatch(one) for one in hashes), pinned


def test_what_has_no_hash_is_not_installed() -> None:
    script = (ROOT / "stack" / "bootstrap.sh").read_text(encoding="utf-8")
    (line,) = [line for line in script.splitlines() if "-r requirements.lock" in line]
    assert "--require-hashes" in line
