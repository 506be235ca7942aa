"""Seeds in several processes side by side, each with servers of its own: a seed waits half of its
time for what was killed to come back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def in_lanes(lanes: int, seeds: range, home: Path, more: Sequence[str]) -> dict[str, Any]:
    """The figures of all seeds, a row of them for each lane; ``more``: arguments that all get."""
    size = -(-len(seeds) // lanes)
    rows = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    children = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.chaos", "--json", *more),
                *("--first", str(row.start), "--seeds", str(len(row))),
                *("--home", str(home / f"lane-{number}")),
            ],
            stdout=subprocess.PIPE,
        )
        for number, row in enumerate(rows)
    ]
    try:
        said = [child.communicate()[0] for child in children]
    finally:
        for child in children:
            child.terminate()
    return summed([json.loads(text) for text in said if text])


def summed(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One summary of several; the lanes ran at the same time."""
    found: dict[str, Any] = {}
    for one in figures:
        for name, value in one.items():
            if isinstance(value, dict):
                found[name] = dict(sorted((Counter(found.get(name, {})) + Counter(value)).items()))
            elif name == "seconds":
                found[name] = max(found.get(name, 0), value)
            else:
                found[name] = found.get(name, [] if isinstance(value, list) else 0) + value
    return found
