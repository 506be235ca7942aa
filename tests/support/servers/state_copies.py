"""State databases that are copies of the first one: ``initdb`` takes longer than most of what a
command under test does. How one is made is tested by ``tests/integration/jobs/state/server``."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs.state.server import database
from jobs.state.server.binaries import Binaries
from jobs.state.server.location import Place
from jobs.state.server.os_user import Account


def copy_state_databases(folder: Path) -> None:
    """From now on, in this process and its forks. ``folder`` gets the first of each version."""
    patched: Any = database
    real = patched.initialise

    def initialise(place: Place, binaries: Binaries, account: Account | None) -> None:
        first = folder / str(binaries.major)
        if first.exists():
            fresh = place.directory / "data.new"
            shutil.rmtree(fresh, ignore_errors=True)
            _copy(first, fresh)
            if place.data.is_dir():  # empty, else it has a version
                place.data.rmdir()
            fresh.replace(place.data)
            return
        real(place, binaries, account)
        whole = folder / f"{binaries.major}.{os.getpid()}"
        _copy(place.data, whole)
        with suppress(OSError):  # another command was first
            whole.rename(first)

    patched.initialise = initialise


def _copy(data: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", str(data), str(to)], check=True)
