"""``benchmarks.many.writer`` in a process of its own, at a steady rate until it is stopped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.many.shop import Sizes
from cdc.errors import FatalError
from stack.child_process import tail

FIRST_NUMBER: Final = 2_000_000
"""Of new rows at a rate of 0; those of each rate have a million numbers of their own."""
_LONGEST_S: Final = 7_200
_END_S: Final = 30.0


class Load:
    """A writer that runs; ``rate_per_s`` is known once it was stopped."""

    def __init__(self, child: subprocess.Popen[str], log: Path) -> None:
        self._child, self._log = child, log
        self.rate_per_s = 0.0

    def check(self) -> None:
        """Raise ``FatalError`` when it has ended."""
        if self._child.poll() is not None:
            raise FatalError(f"the load ended by itself\n{tail(self._log)}")

    def stop(self) -> None:
        """End it between two transactions, and read what it has reached."""
        self._child.terminate()
        output, _ = self._child.communicate(timeout=_END_S)
        if self._child.returncode:
            raise FatalError(f"the load ended with {self._child.returncode}\n{tail(self._log)}")
        written, seconds = output.split()
        self.rate_per_s = int(written) / float(seconds)


@contextmanager
def loading(dsn: str, rate_per_s: float, sizes: Sizes, number: int, log: Path) -> Iterator[Load]:
    """A load of so many transactions a second; its rows are told apart by ``number``."""
    first = FIRST_NUMBER + number * 1_000_000
    numbers = [str(one) for one in (rate_per_s, _LONGEST_S, first, *sizes)]
    command = [sys.executable, "-m", "benchmarks.many.writer", dsn, *numbers]
    with log.open("ab") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        load = Load(child, log)
        yield load
        load.stop()
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        child.wait()
