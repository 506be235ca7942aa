"""Memory that a process has let go of goes back to the system."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
from jobs.spark.garbage_collector import give_back_memory

def resident_kb():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

rows = [b"%d" % i * 100 for i in range(200_000)]
last = rows[-1]
full = resident_kb()
rows.clear()
before = resident_kb()
give_back_memory()
print(full, before, resident_kb())
"""


def test_what_a_backlog_took_goes_back_to_the_system() -> None:
    """The last row keeps the C library from doing so itself: it stands at the end of the heap."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    )
    full, before, after = map(int, done.stdout.split())
    assert before > full - 20_000, done.stdout
    assert after < before - 50_000, done.stdout
