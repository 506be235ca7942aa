"""Seeds of fault tests, counted: how many ran, and in how many something was wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.setting import Watch
from cdc.errors import FatalError, UsageError
from demo.processes import tail

SEEDS: Final[Mapping[str, int]] = {"chaos": 200, "snapshot-seeds": 50}
"""By measurement: so many are wanted."""
_MODULES: Final[Mapping[str, str]] = {"chaos": "chaos", "snapshot-seeds": "snapshots"}
"""Of ``tests``."""
_CHECKOUT: Final = Path(__file__).resolve().parents[1]
_LIMIT_S: Final = 240.0
"""A seed takes far less."""
_STOP_S: Final = 60.0
_SEED_DONE: Final = re.compile(rb"^seed \d+: ", re.MULTILINE)


def measure_seeds(name: str, home: Path, seeds: int, watch: Watch) -> dict[str, float]:
    """Run the seeds from 1 on, on servers of their own. What fails is told by the log."""
    module = _MODULES[name]
    if not (_CHECKOUT / "tests" / module).is_dir():
        raise UsageError(f"{name} is part of the tests, which are not here", "use a checkout")
    log = (home / "logs" / f"{module}.log").resolve()
    log.parent.mkdir(parents=True, exist_ok=True)
    answer = log.with_suffix(".json")
    command = [sys.executable, "-m", f"tests.{module}", "--json", "--seeds", str(seeds)]
    command += ["--home", str(home.resolve() / module)]
    with answer.open("wb") as output, log.open("wb") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=_CHECKOUT
        )
        try:
            _follow(child, log, seeds, watch)
        finally:
            if child.poll() is None:
                child.terminate()  # it has servers of its own to stop
                child.wait(_STOP_S)
    if child.returncode not in (0, 1) or not answer.stat().st_size:  # a traceback has code 1, too
        raise FatalError(f"{name} ended with exit code {child.returncode}\n{tail(log)}")
    return figures(name, answer.read_text(encoding="utf-8"))


def figures(name: str, answer: str) -> dict[str, float]:
    """From what ``--json`` prints."""
    found = json.loads(answer)
    of = name.removesuffix("-seeds")
    return {f"{of}_seeds": found["seeds"], f"{of}_failures": len(found["failures"])}


def _follow(child: subprocess.Popen[bytes], log: Path, seeds: int, watch: Watch) -> None:
    deadline = time.monotonic() + _LIMIT_S * (seeds + 1)
    while child.poll() is None:
        if time.monotonic() > deadline:
            raise FatalError(f"seeds took more than {_LIMIT_S:.0f} s a seed; see {log}")
        done = len(_SEED_DONE.findall(log.read_bytes()))
        watch(f"{done} of {seeds} seeds", done / seeds)
        try:
            child.wait(1)
        except subprocess.TimeoutExpired:
            continue
