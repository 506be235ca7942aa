"""What the kernel says of a process: Linux's ``/proc``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
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


def owners(pid: int, folder: Path) -> list[int]:
    """A process, those whose command line names a folder, and all below them; neither this one
    nor those that it was started by."""
    named = [one for one in _pids() if str(folder).encode() in _command_line(one)]
    trees = [_tree(one) for one in (pid, *named)]
    return sorted({one for tree in trees if os.getpid() not in tree for one in tree})


def cpu_of_s(pids: Iterable[int]) -> float:
    """User and system time of processes and of their children that have ended, in seconds."""
    found = 0.0
    for one in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += _cpu_s(one)
    return found


def pss_mb(pids: Iterable[int]) -> float:
    """Resident memory in 10^6 bytes, where a shared page counts once among those that share it
    (``Pss``); the resident size of a process whose share may not be read."""
    found = 0
    for one in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += _kilobytes(one)
    return found * 1024 / 1e6


def _kilobytes(pid: int) -> int:
    for file, field in (("smaps_rollup", "Pss"), ("status", "VmRSS")):
        with suppress(PermissionError):
            text = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8")
            size = re.search(rf"^{field}:\s*(\d+) kB$", text, re.MULTILINE)
            return int(size[1]) if size else 0
    return 0


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _command_line(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


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
