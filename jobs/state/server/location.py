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

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.errors import StateError
from jobs.state.server.os_user import Account, can_enter, make_private
from jobs.state.server.private_folder import PASSED_THROUGH, private_folder

PORT: Final = 5432
"""Only part of the socket's name."""
_SOCKET: Final = f".s.PGSQL.{PORT}"
_NAME: Final = "_database"
OUTSIDE: Final = Path("/var/lib/headwater")
_SOCKET_BYTES: Final = 107  # sun_path of Linux less its end
_RECORD: Final = "place.json"
_OWNER: Final = "home"
"""In a folder outside of a home: which one it is of."""


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
    def socket_file(self) -> Path:
        return self.socket / _SOCKET

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
        return Place(home, Path(held["outside"] or home), Path(held["socket"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise StateError(
            f"{home / _RECORD} is damaged", f"remove {home}: views are then rebuilt"
        ) from None


def prepare_place(home: Path, account: Account | None) -> Place:
    """Choose the folders, create them with the rights that they need, and record them.

    Raises ``StateError`` for a home that was copied while what its server writes is elsewhere.
    """
    known = recorded_place(home)
    try:
        if not home.is_dir():
            private_folder(home)
        home.chmod(PASSED_THROUGH if account else 0o700)
        if known is not None and known.directory != home:
            directory = _adopted(home, known.directory)
        else:
            directory = home if can_enter(home, account) else _outside(home)
        place = Place(home, directory, _socket_folder(directory, account))
        _record(place)
    except OSError as error:
        raise StateError(
            f"state database below {home}: {error.strerror}",
            "give this user write permission there, or set apply.state",
        ) from error
    return place


def release_place(place: Place) -> None:
    """What is not needed while the server does not run."""
    if place.socket.parent != place.directory:
        shutil.rmtree(place.socket, ignore_errors=True)


def _adopted(home: Path, directory: Path) -> Path:
    """A folder outside of a home, which may have been moved, but not copied."""
    owner = directory / _OWNER
    if not owner.exists():
        raise StateError(
            f"the state database of {home} was in {directory}, which is gone",
            f"restore it, or remove {home}: views are then rebuilt",
        )
    before = Path(owner.read_text(encoding="utf-8"))
    if before != home and (before / _RECORD).exists():
        raise StateError(
            f"{home} is a copy of {before}, whose state database is in {directory}",
            f"remove {home}: the views of the copy are then rebuilt",
        )
    owner.write_text(str(home), encoding="utf-8")
    return directory


def _outside(home: Path) -> Path:
    """A new folder of root's that the server's account may enter."""
    OUTSIDE.mkdir(mode=PASSED_THROUGH, parents=True, exist_ok=True)
    if OUTSIDE.is_symlink() or OUTSIDE.stat().st_uid != os.geteuid():
        raise StateError(f"{OUTSIDE} belongs to another user", "remove it, or set apply.state")
    OUTSIDE.chmod(PASSED_THROUGH)
    for owner in OUTSIDE.glob(f"*/{_OWNER}"):
        if owner.read_text(encoding="utf-8") == str(home):  # of a home that was removed
            shutil.rmtree(owner.parent)
    directory = Path(tempfile.mkdtemp(prefix=f"{home.parent.name}-", dir=OUTSIDE))
    directory.chmod(PASSED_THROUGH)
    (directory / _OWNER).write_text(str(home), encoding="utf-8")
    return directory


def _socket_folder(directory: Path, account: Account | None) -> Path:
    inside = directory / "socket"
    if len(os.fsencode(inside / _SOCKET)) > _SOCKET_BYTES:
        inside = Path(tempfile.mkdtemp(prefix="headwater-"))
    make_private(inside, account)
    return inside


def _record(place: Place) -> None:
    scratch = place.home / f"{_RECORD}.new"
    outside = None if place.directory == place.home else str(place.directory)
    document = {"outside": outside, "socket": str(place.socket)}
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(place.home / _RECORD)


def _quoted(path: Path) -> str:
    """For libpq's ``name='value'``."""
    return str(path).replace("\\", "\\\\").replace("'", "\\'")
