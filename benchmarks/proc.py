"""What the kernel says of a process: Linux's ``/proc``."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from cdc.errors import UsageError
from stack.process import descendants


def require_proc() -> None:
    """Raise ``UsageError`` on a system that has no ``/proc``."""
    if not Path("/proc/self/status").exists():
        raise UsageError("headwater bench reads /proc, which this system lacks", "use Linux")


def cpu_s(pid: int) -> float:
    """User and system time of a process and all below it, with all their threads, in seconds."""
    return sum(_cpu_s(one) for one in _tree(pid))


def peak_rss_mb(pid: int) -> float:
    """The largest resident size a process ever had (``VmHWM``), and all below it, in 10^6 bytes."""
    return sum(_peak_rss_mb(one) for one in _tree(pid))


def largest_rss_mb(pid: int) -> float:
    """The peak of the one among them that had most; 0 when they have ended."""
    found = 0.0
    for one in _tree(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found = max(found, _peak_rss_mb(one))
    return found


def _tree(pid: int) -> list[int]:
    return [pid, *(child.pid for child in descendants(pid))]


def _cpu_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _peak_rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    if found is None:  # it has ended, and nobody has heard of it yet
        raise ProcessLookupError(pid)
    return int(found[1]) * 1024 / 1e6
