"""How the embedded state database is: for ``headwater status``."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from cdc.config import Config
from cdc.errors import StateError
from jobs.state.server.data_directory import data_major
from jobs.state.server.location import Place, home_of, recorded_place
from jobs.state.server.postmaster import running


class StateStatus(NamedTuple):
    """``condition`` is deaf while it starts or ends. ``size_bytes`` is what its files take."""

    condition: Literal["running", "deaf", "stopped"]
    pid: int | None
    version: int | None
    size_bytes: int
    since: str
    place: Place


def state_status(config: Config) -> StateStatus | None:
    """None if there is no embedded one: it was never started, or another one is configured."""
    if config.apply.engine != "database" or config.apply.state_dsn:
        return None
    place = recorded_place(home_of(config.apply.state, config.source.name))
    if place is None:
        return None
    size_bytes = sum(_size(file) for file in place.data.rglob("*"))
    found, version = running(place), None
    with suppress(OSError, StateError):  # who asks may have no right to look
        version = data_major(place.data)
    if found is None:
        return StateStatus("stopped", None, version, size_bytes, "", place)
    condition: Literal["running", "deaf"] = "running" if found.ready else "deaf"
    return StateStatus(condition, found.pid, version, size_bytes, _since(place), place)


def _size(file: Path) -> int:
    with suppress(OSError):  # gone meanwhile
        return file.lstat().st_size
    return 0


def _since(place: Place) -> str:
    """When it started: the third line of its pid file, in seconds since 1970."""
    with suppress(OSError, ValueError, IndexError):
        lines = (place.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return f"{datetime.fromtimestamp(int(lines[2]), UTC):%Y-%m-%dT%H:%M:%SZ}"
    return ""
