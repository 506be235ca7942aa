"""The audit log: it only grows, the owner alone reads it, and damage costs no other line."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cdc.errors import RetryableError
from headwater.api.actions.audit import Audit, line


def test_lines_are_added_and_read_back_the_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "below" / "audit.jsonl"
    audit = Audit(path)
    assert audit.newest(10) == []
    wrote = [line("alice", "operator", "::1", "verify", f"v{i}", {}, "begun") for i in range(5)]
    for one in wrote:
        audit.write(one)
    assert audit.newest(3) == wrote[:1:-1]
    assert Audit(path).newest(10) == wrote[::-1], "it lasts"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_that_was_cut_off_costs_no_other_one(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    first = line("alice", "operator", "", "verify", "v", {}, "begun")
    audit.write(first)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"at_s": 1, "who"\n{"other": "version"}\n\xff\xfe\n')
    audit.write(first)
    assert audit.newest(10) == [first, first]


def test_of_a_large_file_the_end_is_read(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    (tmp_path / "audit.jsonl").write_bytes(b"x" * (3 << 20) + b"\n")
    last = line("alice", "operator", "", "verify", "v", {"note": "y" * 100}, "done")
    audit.write(last)
    assert audit.newest(10) == [last]


def test_a_file_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(RetryableError, match="audit log cannot be written"):
        Audit(tmp_path / "audit.jsonl").write(line("a", "operator", "", "verify", "v", {}, "begun"))


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(RetryableError, match="audit log cannot be read"):
        Audit(tmp_path / "audit.jsonl").newest(10)
