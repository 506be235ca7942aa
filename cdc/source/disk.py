"""Free space where the server keeps its WAL, if that is on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def free_bytes(data_directory: str | None, backend_pid: int) -> int | None:
    """Bytes free for the server's WAL; None when it is not to be known from here.

    A folder of that name may be another server's: the session's process has to be a child of the
    postmaster that the folder names.
    """
    if data_directory is None:
        return None
    folder = Path(data_directory)
    try:
        postmaster = int((folder / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        stat = Path(f"/proc/{backend_pid}/stat").read_text(encoding="utf-8", errors="replace")
        parent = int(stat.rpartition(")")[2].split()[1])
        if parent != postmaster:
            return None
        disk = os.statvfs(folder / "pg_wal")
    except (OSError, ValueError, IndexError):
        return None
    return disk.f_bavail * disk.f_frsize
