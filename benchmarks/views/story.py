"""How long ``headwater demo`` takes, as whoever runs it sees it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.environment import Watch
from cdc.errors import FatalError
from jobs.spark import jars
from jobs.spark.java import find_java
from stack.child_process import headwater, tail

_TIMEOUT_S: Final = 900.0
_USUAL_S: Final = 200.0
_STOP_S: Final = 60.0


def measure_demo(home: Path, watch: Watch) -> dict[str, float]:
    """Wall time of the command with its defaults. Downloads are made beforehand."""
    find_java()
    for name in ("kafka", "opensearch", "spark"):
        jars.jars(name, lambda done, total: watch("downloading jars", done / total))
    home = home.resolve()
    log = home / "logs" / "demo.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [*headwater(), "demo", "--json", "--home", str(home / "demo")]
    with log.open("wb") as output:
        started = time.monotonic()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            _follow(child, started, watch)
        finally:
            _stop(child)
        seconds = time.monotonic() - started
    if child.returncode:
        raise FatalError(f"headwater demo ended with exit code {child.returncode}\n{tail(log)}")
    return {"demo_s": seconds}


def _follow(child: subprocess.Popen[bytes], started: float, watch: Watch) -> None:
    while child.poll() is None:
        waited_s = time.monotonic() - started
        if waited_s > _TIMEOUT_S:
            raise FatalError(f"headwater demo took more than {_TIMEOUT_S:.0f} s")
        watch("headwater demo", waited_s / _USUAL_S)
        try:
            child.wait(0.2)
        except subprocess.TimeoutExpired:
            continue


def _stop(child: subprocess.Popen[bytes]) -> None:
    """A demo that still runs is asked to stop: it has servers and jobs of its own to end."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
