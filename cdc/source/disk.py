"""The file system where the server keeps its WAL, if that is on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Volume(NamedTuple):
    """A file system, in bytes."""

    size: int
    free: int


def free_bytes(data_directory: str | None, backend_pid: int) -> int | None:
    """Bytes free for the server's WAL; None when it is not to be known from here."""
    found = wal_volume(data_directory, backend_pid)
    return found.free if found else None


def wal_volume(data_directory: str | None, backend_pid: int) -> Volume | None:
    """Where the server's WAL is; None when it is not to be known from here.

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
    return Volume(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)
