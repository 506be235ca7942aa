"""The operating system's account that the embedded server runs as.

PostgreSQL refuses to run as root. Started by root it runs as ``nobody``, who may be unable to enter
the folders of root.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NEEDED = ("PATH", "HOME", "TMPDIR", "TZ", "TZDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the server runs as when that is not who starts it."""

    uid: int
    gid: int


def server_account(data: Path | None = None) -> Account | None:
    """``None`` for ourselves. If we are root it is who owns the files that are there, which an
    ordinary user may have made; ``nobody`` while there are none."""
    if os.geteuid() != 0:
        return None
    if data is not None and data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


def as_account(account: Account | None) -> dict[str, Any]:
    """Arguments of ``subprocess`` that run a command as ``account`` and in none of our groups."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def server_environ() -> dict[str, str]:
    """Variables for programs of PostgreSQL: what they need to run, nothing that changes the server,
    and none of the secrets that a configuration may take from ours: processes of the server's
    account could read them."""
    return {name: os.environ[name] for name in _NEEDED if name in os.environ} | {"LC_ALL": "C"}


def can_enter(directory: Path, account: Account | None) -> bool:
    """Asked of the system as that account: modes and access lists of every folder above count."""
    return _succeeds(["/bin/sh", "-c", 'cd "$1"', "sh", str(directory)], account)


def can_run(program: Path, account: Account | None) -> bool:
    """Whether ``program --version`` works for the account."""
    return _succeeds([str(program), "--version"], account)


def make_private(directory: Path, account: Account | None) -> None:
    """Create a folder that only the server's account (and root) enters."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(directory, account.uid, account.gid)
    directory.chmod(0o700)


def _succeeds(command: list[str], account: Account | None) -> bool:
    try:
        done = subprocess.run(
            command,
            cwd="/",
            env=server_environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            **as_account(account),
        )
    except OSError:
        return False
    return done.returncode == 0
