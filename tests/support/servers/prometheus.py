"""Prometheus and its tools: those on ``PATH``, or those that ``stack/bootstrap.sh`` unpacked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from jobs.spark.jars import cache_directory


def tool(name: str) -> str:
    """Where ``prometheus``, ``promtool`` or ``amtool`` is."""
    unpacked = cache_directory() / "prometheus" / name
    found = str(unpacked) if unpacked.is_file() else shutil.which(name)
    assert found, f"{name} is missing: run make, or apt-get install prometheus"
    return found


def run(name: str, *arguments: str | Path, text: str | None = None) -> tuple[int, str]:
    """Its exit code, and all that it said."""
    ended = subprocess.run(
        [tool(name), *map(str, arguments)], input=text, capture_output=True, text=True, timeout=60
    )
    return ended.returncode, ended.stdout + ended.stderr
