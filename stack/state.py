"""What is known of the servers under one home: ``state.json``, replaced whole at each change."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cdc.errors import StackError
from stack.process import Process

_FILE = "state.json"
_LOCK = "lock"
_OF_STATE_DATABASE = "place.json"
"""Where apply's state database says how it is reached: beside a lock of its own."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server: its place is kept across restarts, its process is not."""

    name: str
    ports: Mapping[str, int]
    data: str
    settings: Mapping[str, str] = field(default_factory=dict)
    process: Process | None = None
    since: str = ""
    """When it was last started, ISO 8601 in UTC."""


State = dict[str, ServerState]


def is_home(files: Sequence[str]) -> bool:
    """Whether a folder that holds these files is a home of servers, which its lock makes it before
    anything is started."""
    return _LOCK in files and _OF_STATE_DATABASE not in files


def was_started(home: Path) -> bool:
    """Whether ``home`` is one, as far as this user may look."""
    with suppress(OSError):
        return (home / _LOCK).is_file()
    return False


def homes_near(home: Path) -> list[Path]:
    """Homes where ``home``, which is none, would be another folder's: of those that this folder is
    in, and of those that are in it."""
    here = Path.cwd()
    places = [one / home for one in here.parents]
    with suppress(OSError):
        places += sorted(one / home for one in here.iterdir() if one.is_dir())
    return [] if home.is_absolute() else [one for one in places if was_started(one)]


def load(home: Path) -> State:
    """The state under ``home``, empty if nothing was ever started there."""
    path = home / _FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != _VERSION:
            raise StackError(
                f"{path} is of version {document['version']}",
                "use the version of Headwater that wrote it",
            )
        return {item["name"]: _server(item) for item in document["servers"]}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(
            f"{path} cannot be read ({error!r})", f"stop the servers there and delete {home}"
        ) from None


def _server(item: dict[str, Any]) -> ServerState:
    process = item.pop("process")
    return ServerState(**item, process=Process(**process) if process else None)


def save(home: Path, state: State) -> None:
    """Replace the file in one step: a crash leaves the old or the new, never half of one."""
    path = home / _FILE
    scratch = path.with_suffix(".new")
    document = {"version": _VERSION, "servers": [asdict(server) for server in state.values()]}
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def put(home: Path, state: State, server: ServerState) -> None:
    """Note one server and save."""
    state[server.name] = server
    save(home, state)


def stopped(server: ServerState) -> ServerState:
    """The same server without a process."""
    return replace(server, process=None, since="")


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """One command at a time changes what runs under ``home``; another waits its turn.

    Raises ``StackError`` for a folder that cannot be made or written.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / _LOCK).open("w")
    except OSError as error:
        raise StackError(f"{home}: {error.strerror}", "name another folder with --home") from None
    with lock as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
