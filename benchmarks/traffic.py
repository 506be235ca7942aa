"""Commits at a steady rate while something is measured: ``benchmarks.writer`` in its process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.capture.shapes import USUAL
from benchmarks.environment import Setting
from cdc.errors import FatalError
from stack.child_process import tail

_END_S: Final = 60.0


class Traffic:
    """A writer that runs."""

    def __init__(self, child: subprocess.Popen[bytes], output: Path, log: Path) -> None:
        self._child, self._output, self._log = child, output, log

    def check(self) -> None:
        """Raise ``FatalError`` when it has failed; an end that was due is none."""
        if self._child.poll():
            raise FatalError(f"traffic ended with {self._child.returncode}\n{tail(self._log)}")

    @property
    def runs(self) -> bool:
        """Whether it still writes."""
        return self._child.poll() is None

    def stop(self) -> None:
        """Ask for an early end."""
        self._child.terminate()

    def commits(self) -> dict[int, int]:
        """When each transaction's COMMIT returned, in monotonic ns, by its first number.

        Waits for the end, which has to be due.
        """
        self._child.wait(_END_S)
        self.check()
        lines = self._output.read_text(encoding="utf-8").splitlines()
        return {int(row): int(at) for row, at in (line.split() for line in lines)}


def inserts(table: str) -> list[str]:
    """New rows of the usual shape, their ids the numbers that are written."""
    return [USUAL.insert(table, "%(first)s", "%(last)s").decode()]


@contextmanager
def traffic(
    setting: Setting,
    name: str,
    statements: Sequence[str],
    rate_per_s: int,
    seconds: int,
    transaction_rows: int = 1,
) -> Iterator[Traffic]:
    """Transactions of one statement each, as ``benchmarks.writer`` has them; killed at the end."""
    output, log = setting.home / "commits.txt", setting.log(f"traffic-{name}")
    numbers = (str(number) for number in (rate_per_s, seconds, transaction_rows))
    command = [sys.executable, "-m", "benchmarks.writer", setting.dsn, *numbers, *statements]
    with output.open("wb") as commits, log.open("wb") as errors:
        child = subprocess.Popen(command, stdout=commits, stderr=errors)
        try:
            yield Traffic(child, output, log)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    output.unlink()
