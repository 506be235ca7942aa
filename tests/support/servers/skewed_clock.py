"""Processes whose clock is ahead: libfaketime, as ``stack/test_tools.sh`` unpacked it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from jobs.spark.jars import cache_directory

_LIBRARY = "libfaketime.so.1"


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """A folder that every user can read: the source does not run as root."""

    folder: Path

    def ahead_s(self, seconds: float) -> None:
        """Read again by running processes within a second."""
        fresh = self.folder / "fresh"
        fresh.write_text(f"{seconds:+g}\n", encoding="ascii")
        fresh.chmod(0o644)
        fresh.replace(self.folder / "offset")

    @contextmanager
    def for_processes_started(self) -> Iterator[None]:
        """Those that are started within it have this clock, and so do their children."""
        variables = {
            "LD_PRELOAD": str(self.folder / _LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "offset"),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        with patch.dict(os.environ, variables):
            yield


@contextmanager
def skewed_clock() -> Iterator[SkewedClock]:
    """One that is right at first."""
    unpacked = cache_directory() / "faketime" / _LIBRARY
    assert unpacked.is_file(), f"{unpacked} is missing: run make check"
    folder = Path(tempfile.mkdtemp(prefix="headwater-clock-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        shutil.copy(unpacked, folder / _LIBRARY)
        clock = SkewedClock(folder)
        clock.ahead_s(0)
        yield clock
    finally:
        shutil.rmtree(folder)
