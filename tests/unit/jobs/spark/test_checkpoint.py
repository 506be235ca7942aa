"""Which batch of a checkpoint had a record."""

from __future__ import annotations

import json
import os
from pathlib import Path

from jobs.spark.checkpoint import batch_with


def checkpoint(path: Path, ends: dict[int, int], committed: int) -> Path:
    """One whose batches end there, those up to ``committed`` at 100 s, 101 s and so on."""
    for folder in ("offsets", "commits"):
        (path / folder).mkdir()
    for number, end in ends.items():
        plan = ["v1", "{}", json.dumps({"s.public.a": {"0": end}})]
        (path / "offsets" / str(number)).write_text("\n".join(plan))
        if number <= committed:
            (path / "commits" / str(number)).touch()
            os.utime(path / "commits" / str(number), (100 + number, 100 + number))
    return path


def test_the_first_committed_batch_that_ends_behind_a_record_had_it(tmp_path: Path) -> None:
    held = checkpoint(tmp_path, {0: 5, 1: 5, 2: 8, 3: 9}, committed=2)
    found = [batch_with(held, ("s.public.a", 0), offset) for offset in (0, 4, 5, 7, 8)]
    assert found == [(0, 100.0), (0, 100.0), (2, 102.0), (2, 102.0), None]
    assert batch_with(held, ("s.public.a", 1), 0) is None
    assert batch_with(tmp_path / "nowhere", ("s.public.a", 0), 0) is None


def test_what_may_have_been_in_a_batch_that_is_not_kept_is_not_told(tmp_path: Path) -> None:
    held = checkpoint(tmp_path, {7: 5, 8: 8}, committed=8)
    found = [batch_with(held, ("s.public.a", 0), offset) for offset in (4, 5, 8)]
    assert found == [None, (8, 108.0), None]
