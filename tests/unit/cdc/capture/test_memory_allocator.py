"""Capture keeps freed memory for its next batch, and gives it back when it is told to."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
from cdc.capture.memory_allocator import give_back_memory, keep_freed_memory

def resident_kb():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

keep_freed_memory()
batches = [bytes(range(250)) * 4_000 for _ in range(60)]
last = batches[-1]
full = resident_kb()
batches.clear()
before = resident_kb()
give_back_memory()
print(full, before, resident_kb())
"""


def test_what_a_stall_took_goes_back_to_the_system_when_it_is_asked_for() -> None:
    """The last batch is not let go of: it stands at the end of the heap."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    )
    full, before, after = map(int, done.stdout.split())
    assert before > full - 20_000, done.stdout
    assert after < before - 40_000, done.stdout
