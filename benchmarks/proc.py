"""What the kernel says of a process: Linux's ``/proc``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cdc.errors import UsageError


def require_proc() -> None:
    """Raise ``UsageError`` on a system that has no ``/proc``."""
    if not Path("/proc/self/status").exists():
        raise UsageError("headwater bench reads /proc, which this system lacks", "use Linux")


def cpu_s(pid: int) -> float:
    """User and system time of a process and all its threads, in seconds."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_rss_mb(pid: int) -> float:
    """The largest resident size the process ever had (``VmHWM``), in 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    assert found is not None, pid
    return int(found[1]) * 1024 / 1e6
