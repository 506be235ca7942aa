"""One process at a time keeps a state database.

Of an embedded one the lock is of a file, since its server may not run yet; of any one it is an
advisory lock, which ends with the session that holds it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cdc.errors import StateError
from jobs.generations.view_locks import taken
from jobs.state.server.connection import Connection, translated
from jobs.state.server.file_descriptors import close_in_children
from jobs.state.server.private_folder import private_folder

BUSY_S: Final = 5.0
"""How long a process that is just ending is waited for."""
_POLL_S: Final = 0.05
_KEY: Final = 0x6865_6164_7374_6174  # "headstat"
_APPLICATION_BYTES: Final = 63
_FILE: Final = "lock"
_HINT: Final = "stop it, or wait until it has finished: a state database serves one apply at a time"
_HOLDER: Final = """
select a.application_name, coalesce(a.client_addr::text, 'a local socket'), a.backend_start::text
from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
  and (l.classid::bigint << 32) | l.objid::bigint = %s
"""


class InUseError(StateError):
    """Another process keeps the state database."""


@contextmanager
def directory_lock(home: Path, wait_s: float = BUSY_S) -> Iterator[None]:
    """Hold the folder of an embedded state database.

    Raises ``StateError`` that names who holds it, if that lasts for ``wait_s``.
    """
    try:
        if not home.is_dir():
            private_folder(home)
        file = (home / _FILE).open("a+")
    except OSError as error:
        raise StateError(
            f"{home}: {error.strerror}", "give this user write permission there"
        ) from error
    close_in_children(file)
    with file:
        deadline = time.monotonic() + wait_s
        while not taken(file.fileno()):
            if time.monotonic() > deadline:
                raise _busy(f"the state database in {home}", _holder(file.fileno()))
            time.sleep(_POLL_S)
        with suppress(OSError):  # a disk without room: the lock is held all the same
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"{_who()}, since {_now()}".encode())
        yield  # closing the file gives it back


def directory_holder(home: Path) -> str:
    """``pid 12 on host, since ...`` of who holds it now; empty if nobody does."""
    try:
        with (home / _FILE).open() as file:
            if taken(file.fileno(), fcntl.LOCK_SH):
                return ""
            return _holder(file.fileno()) or "another process"
    except FileNotFoundError:
        return ""


def application_name() -> str:
    """What the session that holds the advisory lock is called, for whoever meets it."""
    return f"headwater apply, {_who()}"[:_APPLICATION_BYTES]


def hold_database(conn: Connection, wait_s: float = BUSY_S) -> None:
    """Take the advisory lock for as long as ``conn`` lives; it is in autocommit mode.

    Raises ``StateError`` that names who holds it, if that lasts for ``wait_s``.
    """
    deadline = time.monotonic() + wait_s
    with translated("locking the state database"):
        while not _scalar(conn, "select pg_catalog.pg_try_advisory_lock(%s)"):
            if time.monotonic() > deadline:
                raise _busy("this state database", database_holder(conn))
            time.sleep(_POLL_S)


def database_holder(conn: Connection) -> str:
    """Who holds the advisory lock now; empty if nobody does."""
    row = conn.execute(_HOLDER, [_KEY]).fetchone()
    return f"{row[0]} (from {row[1]}, since {row[2]})" if row else ""


def is_kept_elsewhere(conn: Connection) -> bool:
    """Whether another process holds it: this one may do so to look at what nobody keeps."""
    holder = database_holder(conn)
    return bool(holder) and not holder.startswith(application_name())


def _scalar(conn: Connection, query: str) -> bool:
    row = conn.execute(query.encode(), [_KEY]).fetchone()
    return bool(row and row[0])


def _busy(what: str, holder: str) -> InUseError:
    return InUseError(f"{what} is in use by {holder or 'another process'}", _HINT)


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode(errors="replace")


def _who() -> str:
    return f"pid {os.getpid()} on {socket.gethostname()}"


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
