"""Signals that come at any moment, and more than once."""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_THE_EVENT = """
import os, signal, threading
from cdc.shutdown_signals import told_to_stop
told, also = [], threading.Event()
stopping = told_to_stop(lambda: (told.append("also"), also.set()))
with stopping._cond:  # as in the middle of its own wait() and set()
    for number in (signal.{first}, signal.{second}):
        os.kill(os.getpid(), number)
assert stopping.wait(60) and also.wait(60)
os.kill(os.getpid(), signal.{second})
print(*told, "ended")
"""


@pytest.mark.parametrize(("first", "second"), [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGTERM")])
def test_a_signal_in_the_middle_of_anything_ends_the_process_once(first: str, second: str) -> None:
    script = IN_THE_EVENT.format(first=first, second=second)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["also", "ended"]
