"""Seeds of fault tests, counted: how many ran, and in how many something was wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.environment import Watch
from cdc.errors import FatalError, UsageError
from stack.child_process import tail


class Seeds(NamedTuple):
    """A command of ``tests``, and how many seeds are wanted of it."""

    module: str
    wanted: int
    options: tuple[str, ...] = ()


SEEDS: Final[Mapping[str, tuple[Seeds, ...]]] = {
    "chaos": (Seeds("chaos", 200),),
    "snapshot-seeds": (Seeds("snapshots", 50),),
    "view-seeds": (Seeds("spark_maintenance", 200), Seeds("spark_maintenance", 20, ("--spark",))),
}
"""By measurement."""
_CHECKOUT: Final = Path(__file__).resolve().parents[1]
_LIMIT_S: Final = 240.0
"""A seed takes far less."""
_STOP_S: Final = 60.0
_SEED_DONE: Final = re.compile(rb"^seed \d+: ", re.MULTILINE)


def measure_seeds(
    name: str, home: Path, scaled: Callable[[int], int], watch: Watch
) -> dict[str, float]:
    """Run a measurement's seeds, on servers of their own. What fails is told by the log."""
    return figures(name, [_run(name, seeds, home, scaled, watch) for seeds in SEEDS[name]])


def figures(name: str, answers: Sequence[str]) -> dict[str, float]:
    """From what ``--json`` prints. A view's seeds are those without Spark, the others extra."""
    found = [json.loads(answer) for answer in answers]
    of = name.removesuffix("-seeds")
    counts = {f"{of}_seeds": found[0]["seeds"]}
    if name == "view-seeds":
        counts["view_spark_seeds"] = found[1]["seeds"]
    return {**counts, f"{of}_failures": sum(len(one["failures"]) for one in found)}


def _run(name: str, seeds: Seeds, home: Path, scaled: Callable[[int], int], watch: Watch) -> str:
    module, count = seeds.module, scaled(seeds.wanted)
    if not (_CHECKOUT / "tests" / module).is_dir():
        raise UsageError(f"{name} is part of the tests, which are not here", "use a checkout")
    log = (home / "logs" / f"{''.join((module, *seeds.options))}.log").resolve()
    log.parent.mkdir(parents=True, exist_ok=True)
    answer = log.with_suffix(".json")
    command = [sys.executable, "-m", f"tests.{module}", "--json", "--seeds", str(count)]
    command += ["--home", str(home.resolve() / module), *seeds.options]
    with answer.open("wb") as output, log.open("wb") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=_CHECKOUT
        )
        try:
            _follow(child, log, count, watch)
        finally:
            if child.poll() is None:
                child.terminate()  # it has servers of its own to stop
                child.wait(_STOP_S)
    if child.returncode not in (0, 1) or not answer.stat().st_size:  # a traceback has code 1, too
        raise FatalError(f"{name} ended with exit code {child.returncode}\n{tail(log)}")
    return answer.read_text(encoding="utf-8")


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
