"""``results.json``: one flat object of figures, and of what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.report.metrics import FIGURES
from cdc.errors import UsageError

RESULTS: Final = Path(__file__).parents[1] / "results.json"

Results: TypeAlias = dict[str, float | str]


def read_results(path: Path) -> Results:
    """What is there; nothing when there is no file. Raises ``UsageError`` for anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "delete it") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} holds no results", "delete it")
    return found


def merge(before: Results, facts: Results, measured: Mapping[str, float]) -> Results:
    """New figures and facts over the old; figures that were not measured again stay.

    Figures come first and in their own order, whatever the order in the file was.
    """
    unknown = sorted(measured.keys() - FIGURES.keys())
    assert not unknown, f"figures without a description: {unknown}"
    figures = {name: round(value, FIGURES[name].digits) for name, value in measured.items()}
    known: Results = {**before, **figures}
    in_order: Results = {name: known[name] for name in FIGURES if name in known}
    others = {name: value for name, value in before.items() if name not in FIGURES}
    return {**in_order, **others, **facts}


def write_results(path: Path, results: Results) -> None:
    """Replace the file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)


def machine_facts() -> Results:
    """Machine, date and versions of Headwater and Python."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu_model": _cpu_model(),
        "cpu_cores": cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "headwater_version": version("headwater"),
        "python_version": platform.python_version(),
    }


def load_average() -> float:
    """Processes that wanted a core, on average over the last minute."""
    return round(os.getloadavg()[0], 2)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except FileNotFoundError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()
