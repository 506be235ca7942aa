"""The data directory of an embedded state database: made once, then only its configuration is
written at each start.

It is UTF-8, and text is ordered by code point on every machine (locale C), so that an upgrade of
the system's libraries never leaves an index in an order that is no longer the database's. From
PostgreSQL 17 on its own provider also tells letters from others, and their case, as Unicode does.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Final

from cdc.errors import RetryableError, StateError
from jobs.spark.disk_full import told_no_room
from jobs.state.server.binaries import Binaries
from jobs.state.server.location import Place
from jobs.state.server.os_user import Account, as_account, make_private, server_environ
from jobs.state.server.settings import configuration, server_settings

ROLE: Final = "headwater"
DATABASE: Final = "headwater"
"""What ``initdb`` makes for users gets this name."""
_BUILTIN_LOCALES: Final = 17
_INITDB_S: Final = 180
_TAIL_LINES: Final = 3


def data_major(data: Path) -> int | None:
    """The version that made the directory; ``None`` if there is none."""
    try:
        return int((data / "PG_VERSION").read_text(encoding="utf-8"))
    except FileNotFoundError:
        if data.is_dir() and any(data.iterdir()):
            raise StateError(
                f"{data} is not a PostgreSQL data directory",
                "restore it, or delete its folder: views are then rebuilt",
            ) from None
        return None


def initialise(place: Place, binaries: Binaries, account: Account | None) -> None:
    """``initdb`` into a scratch folder that is renamed when whole, with the database in it."""
    scratch = place.directory / "data.new"
    shutil.rmtree(scratch, ignore_errors=True)
    make_private(scratch, account)
    locale = ["--encoding=UTF8", "--locale=C"]
    if binaries.major >= _BUILTIN_LOCALES:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command = [str(binaries.initdb), "-D", str(scratch), "-U", ROLE, *locale]
    command += ["--data-checksums", "--auth-local=peer", "--auth-host=reject", "--no-instructions"]
    _run(place, command, scratch, account)
    # In the folder that nobody finds yet: who finds a server that answers finds the database too.
    single = [str(binaries.postgres), "--single", "-D", str(scratch), "template1"]
    _run(place, single, scratch, account, f"alter database postgres rename to {DATABASE}\n")
    if place.data.is_dir():  # empty, else it has a version
        place.data.rmdir()
    scratch.replace(place.data)


def _run(
    place: Place, command: list[str], scratch: Path, account: Account | None, told: str = ""
) -> None:
    """A program of PostgreSQL's that makes the directory. Raises what ``start_error`` gives."""
    done = subprocess.run(
        command,
        cwd=scratch,
        env=server_environ(),
        input=told,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_INITDB_S,
        check=False,
        **as_account(account),
    )
    if done.returncode != 0:
        shutil.rmtree(scratch, ignore_errors=True)
        raise start_error(place.directory, done.stderr)


def write_configuration(place: Place, binaries: Binaries) -> None:
    """``postgresql.conf`` and who may come in: root, the server's account and who we are."""
    accounts = {pwd.getpwuid(uid).pw_name for uid in (os.geteuid(), place.data.stat().st_uid)}
    texts = {
        "postgresql.conf": configuration(server_settings(place, binaries.major)),
        "pg_hba.conf": "local all all peer map=headwater\n",
        "pg_ident.conf": "".join(f'headwater "{name}" {ROLE}\n' for name in sorted(accounts)),
    }
    for name, text in texts.items():
        scratch = place.directory / f"{name}.new"
        scratch.write_text(text, encoding="utf-8")
        scratch.chmod(0o644)
        scratch.replace(place.directory / name)


def start_error(directory: Path, told: str) -> StateError | RetryableError:
    """Of a program of PostgreSQL's that ended with an error; ``told`` is what it wrote."""
    where, lines = f"state database in {directory}", told.strip().splitlines()
    if room := next(filter(None, map(told_no_room, lines)), ""):
        return RetryableError(f"{where}: {room}", "free disk space there")
    last = " ".join(line.strip() for line in lines[-_TAIL_LINES:]) or "no reason given"
    return StateError(f"{where} does not start: {last}", "see its server.log")
