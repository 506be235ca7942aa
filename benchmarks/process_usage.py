"""What the system says of processes: their CPU and memory, and which are whose."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from cdc.errors import UsageError


def require_proc() -> None:
    """Raise ``UsageError`` on a system that has no ``/proc``: peaks of memory are read there."""
    if not Path("/proc/self/status").exists():
        raise UsageError("headwater bench reads /proc, which this system lacks", "use Linux")


def cpu_s(pid: int) -> float:
    """User and system time of a process and all below it, with all their threads, in seconds."""
    return cpu_of_s(tree(pid))


def peak_rss_mb(pid: int) -> float:
    """The largest resident size a process ever had, and all below it, in 10^6 bytes."""
    return sum(_peak_rss_mb(one.pid) for one in _tree(pid))


def largest_rss_mb(pid: int) -> float:
    """The peak of the one among them that had most; 0 when they have ended."""
    with suppress(psutil.NoSuchProcess):
        return max(_peak_rss_mb(one.pid) for one in _tree(pid))
    return 0.0


def owners(pid: int, folder: Path) -> list[int]:
    """A process, those whose command line names a folder, and all below them; neither this one
    nor those that it was started by."""
    named = {
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if str(folder) in " ".join(one.info["cmdline"] or ())
    }
    trees = []
    for one in {pid, *named}:
        with suppress(psutil.NoSuchProcess):
            trees.append({of.pid for of in _tree(one)})
    return sorted({one for tree in trees if os.getpid() not in tree for one in tree})


def tree(pid: int) -> list[int]:
    """A process and all below it; none when it has ended."""
    with suppress(psutil.NoSuchProcess):
        return [one.pid for one in _tree(pid)]
    return []


def cpu_of_s(pids: Iterable[int]) -> float:
    """User and system time of processes and of their children that have ended, in seconds."""
    found = 0.0
    for one in pids:
        with suppress(psutil.NoSuchProcess):
            found += sum(psutil.Process(one).cpu_times()[:4])
    return found


def pss_mb(pids: Iterable[int]) -> float:
    """Resident memory in 10^6 bytes, where a shared page counts once among those that share it;
    the resident size of a process whose share may not be read."""
    found = 0
    for one in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(one)
            try:
                found += process.memory_full_info().pss
            except psutil.AccessDenied:
                found += process.memory_info().rss
    return found / 1e6


def shared_mb(pids: Iterable[int]) -> float:
    """The part of ``pss_mb`` that processes have in common on purpose, as PostgreSQL's buffers; 0
    for a process whose share may not be read."""
    found = 0
    for one in pids:
        with suppress(OSError):
            text = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="utf-8")
            if part := re.search(r"^Pss_Shmem:\s*(\d+) kB$", text, re.MULTILINE):
                found += int(part[1]) * 1024
    return found / 1e6


def _tree(pid: int) -> list[psutil.Process]:
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def _peak_rss_mb(pid: int) -> float:
    """``VmHWM``, which psutil does not know."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        found = None
    if found is None:  # it has ended, and nobody has heard of it yet
        raise psutil.NoSuchProcess(pid)
    return int(found[1]) * 1024 / 1e6
