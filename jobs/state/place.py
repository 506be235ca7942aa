"""Where an embedded state database lies.

<apply.state>/<source>/_database/    ``lock`` and ``place.json``; no view has such a name
    data/                            PostgreSQL's own
    socket/                          the Unix socket: the server's account and root reach it
    postgresql.conf, pg_hba.conf     written at each start, as pg_ident.conf is
    server.log

Started by root the server runs as ``nobody``. Where that account cannot enter the folder, all but
the lock and ``place.json`` is in a folder below /var/lib/headwater: not in /var/tmp, from which
systems delete files that were not read for a month. A socket's path has at most 107 bytes: one
that is longer is in a folder of its own below the system's folder for temporary files.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.errors import StateError
from jobs.state.account import Account, can_enter, make_private

PORT: Final = 5432
"""Only part of the socket's name."""
_NAME: Final = "_database"
_OUTSIDE: Final = Path("/var/lib/headwater")
_SOCKET_BYTES: Final = 107  # sun_path of Linux less its end
_RECORD: Final = "place.json"


@dataclass(frozen=True, slots=True)
class Place:
    """``home`` is below ``apply.state``; ``directory`` is where the server reaches its files."""

    home: Path
    directory: Path
    socket: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def dsn(self) -> str:
        return f"host='{_quoted(self.socket)}' port={PORT} user=headwater dbname=headwater"


def home_of(state: str, source: str) -> Path:
    """The folder of a source's state database. Raises ``StateError`` for what is no local path."""
    if "://" in state:
        raise StateError(f"apply.state: {state} is not a local path", "name a directory")
    return Path(state) / source / _NAME


def recorded_place(home: Path) -> Place | None:
    """Where it was last started; ``None`` if it never was."""
    try:
        held = json.loads((home / _RECORD).read_text(encoding="utf-8"))
        return Place(home, Path(held["directory"]), Path(held["socket"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise StateError(
            f"{home / _RECORD} is damaged", "delete the file: it is written at the next start"
        ) from None


def prepare_place(home: Path, account: Account | None) -> Place:
    """Choose the folders, create them with the rights that they need, and record them."""
    known = recorded_place(home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o755 if account else 0o700)
        directory = known.directory if known and known.directory.is_dir() else home
        if not can_enter(directory, account):
            directory = _outside(home)
        place = Place(home, directory, _socket_folder(directory, known, account))
    except OSError as error:
        raise StateError(
            f"state database below {home}: {error.strerror}",
            "give this user the right to write there, or set apply.state",
        ) from error
    if place != known:
        _record(place)
    return place


def _outside(home: Path) -> Path:
    """A folder of root's that every account may enter."""
    directory = _OUTSIDE / hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    for folder in (_OUTSIDE, directory):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            raise StateError(f"{folder} belongs to another user", "remove it, or set apply.state")
        folder.chmod(0o755)
    return directory


def _socket_folder(directory: Path, known: Place | None, account: Account | None) -> Path:
    inside = directory / "socket"
    if len(os.fsencode(inside / f".s.PGSQL.{PORT}")) <= _SOCKET_BYTES:
        make_private(inside, account)
        return inside
    if known is not None and _is_private(known.socket, account):
        return known.socket
    made = Path(tempfile.mkdtemp(prefix="headwater-"))
    make_private(made, account)
    return made


def _is_private(folder: Path, account: Account | None) -> bool:
    with suppress(FileNotFoundError):
        found = folder.lstat()
        owner = account.uid if account else os.geteuid()
        own = found.st_uid == owner and stat.S_IMODE(found.st_mode) == 0o700
        return stat.S_ISDIR(found.st_mode) and own
    return False


def _record(place: Place) -> None:
    scratch = place.home / f"{_RECORD}.new"
    document = {"directory": str(place.directory), "socket": str(place.socket)}
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(place.home / _RECORD)


def _quoted(path: Path) -> str:
    """For libpq's ``name='value'``."""
    return str(path).replace("\\", "\\\\").replace("'", "\\'")
