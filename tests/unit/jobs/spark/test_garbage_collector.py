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


_THREADS = """
import ctypes, threading

import sys

from jobs.spark.garbage_collector import keep_little

if sys.argv[1:] == ["little"]:
    keep_little()
import os

allocate = ctypes.CDLL(None).malloc
allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
found, all_there = set(), threading.Barrier(8)

def work():
    all_there.wait()
    found.add(allocate(1000) >> 26)
    all_there.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(found), os.environ.get("_RJEM_MALLOC_CONF", "-"), "deltalake" in sys.modules)
"""


def _arenas(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _THREADS, *arguments], capture_output=True, text=True, check=True
    )
    arenas, setting, loaded = done.stdout.split()
    return int(arenas), setting, loaded


def test_threads_share_what_is_freed_and_delta_rs_is_told_before_it_is_loaded() -> None:
    arenas, setting, loaded = _arenas("little")
    assert arenas <= 2, "one may have been there"
    assert "narenas:1" in setting
    assert loaded == "False"
    assert _arenas()[0] > 2, "else the test tells nothing"
