"""The state database of a seed, as somebody who is not ``headwater apply`` meets it: its process is
killed, it does not answer, its files are gone, or are those of a copy that was made before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from jobs.state.server.location import Place, home_of, recorded_place
from jobs.state.server.postmaster import end_left_over, running
from tests.chaos.servers.environment import connect, database
from tests.chaos.servers.stores import OwnServer

Pause = Callable[[float], None]


class StateDatabase(Protocol):
    """``lose``, ``copy`` and ``restore`` are for when no apply runs."""

    def toml(self) -> str:
        """Lines of [apply]."""

    def prepare(self) -> None:
        """Before the first apply."""

    def kill(self, lasts_s: float, pause: Pause) -> None:
        """``kill -9`` of the server's first process."""

    def away(self, lasts_s: float, pause: Pause) -> None:
        """It does not answer for so long."""

    def lose(self) -> None:
        """All that it kept is gone."""

    def copy(self) -> None:
        """Keep it aside as it is now."""

    def restore(self) -> None:
        """What was kept aside takes its place."""

    def recover(self) -> None:
        """Nothing is in the way of it."""

    def clear(self) -> None:
        """Nothing of it is left."""


class Embedded:
    """The one that apply starts, below ``state``."""

    def __init__(self, state: Path, source: str) -> None:
        self._home, self._copy = home_of(str(state), source), state / "copy"

    def toml(self) -> str:
        return ""

    def prepare(self) -> None:
        pass

    def kill(self, lasts_s: float, pause: Pause) -> None:
        """Apply starts it again."""
        place = recorded_place(self._home)
        if place is not None and (found := running(place)) is not None:
            os.kill(found.pid, signal.SIGKILL)
        pause(lasts_s)

    def away(self, lasts_s: float, pause: Pause) -> None:
        place = recorded_place(self._home)
        stopped = [] if place is None else _processes(place.data)
        for pid in stopped:
            _signal(pid, signal.SIGSTOP)
        try:
            pause(lasts_s)
        finally:
            for pid in stopped:
                _signal(pid, signal.SIGCONT)

    def lose(self) -> None:
        self._ended()
        shutil.rmtree(self._home, ignore_errors=True)

    def copy(self) -> None:
        shutil.rmtree(self._copy, ignore_errors=True)
        _copy(self._ended().data, self._copy)

    def restore(self) -> None:
        data = self._ended().data
        shutil.rmtree(data)
        _copy(self._copy, data)

    def recover(self) -> None:
        pass

    def clear(self) -> None:
        place = recorded_place(self._home)
        if place is not None:
            end_left_over(place)
            for folder in (place.socket, place.directory):
                shutil.rmtree(folder, ignore_errors=True)

    def _ended(self) -> Place:
        """Where it is; whoever outlived a killed apply has ended."""
        place = recorded_place(self._home)
        assert place is not None, f"no apply has made {self._home}"
        end_left_over(place)
        return place


class Own:
    """A database that ``apply.state_dsn`` names, of a server that is reached through a proxy."""

    def __init__(self, server: OwnServer, source: str) -> None:
        self._server, self._name, self._copy = server, f"{source}_state", f"{source}_copy"

    def toml(self) -> str:
        return f'state_dsn = "{database(self._server.proxied, self._name)}"\n'

    def prepare(self) -> None:
        self._execute(f'create database "{self._name}"')

    def kill(self, lasts_s: float, pause: Pause) -> None:
        """Somebody starts it again later."""
        self._server.kill()
        pause(lasts_s)
        self._server.restart()

    def away(self, lasts_s: float, pause: Pause) -> None:
        """What was sent arrives or not, and no answer comes back."""
        self._server.proxy.stall()
        pause(lasts_s)
        self._server.proxy.cut()
        self._server.proxy.release()

    def lose(self) -> None:
        self._drop(self._name)
        self.prepare()

    def copy(self) -> None:
        self._drop(self._copy)
        self._duplicate(self._name, self._copy)

    def restore(self) -> None:
        self._drop(self._name)
        self._duplicate(self._copy, self._name)

    def recover(self) -> None:
        self._server.proxy.release()
        self._server.restart()

    def clear(self) -> None:
        self._drop(self._name)
        self._drop(self._copy)

    def _duplicate(self, name: str, duplicate: str) -> None:
        """Sessions of a killed apply end first: a database that is copied has none."""
        self._execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            f" where datname = '{name}'",
            f'create database "{duplicate}" template "{name}"',
        )

    def _drop(self, name: str) -> None:
        self._execute(f'drop database if exists "{name}" with (force)')

    def _execute(self, *statements: str) -> None:
        with connect(self._server.direct) as conn:
            for statement in statements:
                conn.execute(statement.encode())


def _copy(folder: Path, copy: Path) -> None:
    """With owners and rights, which PostgreSQL looks at."""
    subprocess.run(["cp", "-a", str(folder), str(copy)], check=True)


def _processes(data: Path) -> list[int]:
    """Those that work in a data directory: the server and its sessions."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.path.samestat(os.stat(entry / "cwd"), data.stat()):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
