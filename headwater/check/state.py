"""Checks of the state database, where views are kept by one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cdc.config import Config
from headwater.check.finding import Finding
from headwater.check.source import Source

if TYPE_CHECKING:
    from jobs.state.server.connection import Connection
    from jobs.state.server.identity import Identity

_CHECK: Final = "state database"
_ROOM_MB: Final = 1024
_MB: Final = 1 << 20


def state(config: Config, source: Source | None) -> Iterator[Finding]:
    """What would keep ``headwater apply`` from keeping its state; ``source`` is None while it is
    out of reach. Raises what the state database says against it."""
    if config.apply.engine != "database":
        if config.apply.state_dsn:
            hint = 'set apply.engine = "database", or remove state_dsn'
            yield Finding("warning", _CHECK, "apply.state_dsn is not used", hint)
        return
    from jobs.state.server.database import running_dsn
    from jobs.state.server.identity import source_identity

    identity = source_identity(source.conn, config.source.name) if source else None
    if not config.apply.state_dsn:
        yield from _files(config)
    if dsn := running_dsn(config):
        yield from _asked(config, dsn, identity)
    if source is not None:
        yield from _version(config, dsn, source)


def _asked(config: Config, dsn: str, source: Identity | None) -> Iterator[Finding]:
    from jobs.state.server.apply_lock import database_holder
    from jobs.state.server.connection import connect, shown_place
    from jobs.state.server.requirements import refuse_unfit

    with connect(dsn, autocommit=True, application_name="headwater check") as conn:
        refuse_unfit(conn, dsn, source)
        _refuse_other(conn, source)
        if config.apply.state_dsn:
            where = f"PostgreSQL {_major(conn)} at {shown_place(dsn)}"
            holder = database_holder(conn)
            yield Finding("ok", _CHECK, f"{where}, kept by {holder}" if holder else where)


def _refuse_other(conn: Connection, source: Identity | None) -> None:
    """A database that was never used belongs to nobody."""
    from jobs.state.server.identity import read_identity, refuse_other_source
    from jobs.state.server.migration import pending
    from jobs.state.server.requirements import refuse_full

    refuse_full(conn)
    missing = pending(conn)
    if source is not None and not any(one.version == 1 for one in missing):
        refuse_other_source(read_identity(conn), source)


def _files(config: Config) -> Iterator[Finding]:
    """Programs, folder and disk of an embedded one."""
    from jobs.state.server.apply_lock import directory_holder
    from jobs.state.server.binaries import find_binaries
    from jobs.state.server.data_directory import data_major
    from jobs.state.server.location import home_of, recorded_place

    home = home_of(config.apply.state, config.source.name)
    place = recorded_place(home)
    binaries = find_binaries(data_major(place.data) if place else None)
    folder = _existing(place.directory if place else home)
    holder = directory_holder(home)
    where = f"PostgreSQL {binaries.major}, embedded, in {place.directory if place else home}"
    if not os.access(folder, os.W_OK | os.X_OK):
        hint = "give this user write permission, or set apply.state"
        yield Finding("error", _CHECK, f"{folder} is not writable", hint)
    elif (free_mb := shutil.disk_usage(folder).free // _MB) < _ROOM_MB:
        hint = "free disk space: it needs as much as the source's tables that views read"
        yield Finding("warning", _CHECK, f"{where}: only {free_mb} MB are free", hint)
    else:
        yield Finding("ok", _CHECK, f"{where}, kept by {holder}" if holder else where)


def _version(config: Config, dsn: str, source: Source) -> Iterator[Finding]:
    """What a newer source computes an older state database may not know."""
    from jobs.state.server.binaries import find_binaries
    from jobs.state.server.connection import connect

    newest = source.conn.info.server_version // 10_000
    if dsn:
        with connect(dsn, application_name="headwater check") as conn:
            own = _major(conn)
    else:
        own = find_binaries().major
    if own < newest:
        where = "apply.state_dsn" if config.apply.state_dsn else "this environment"
        hint = f"use PostgreSQL {newest} in {where} if a view needs its newer features"
        message = f"is PostgreSQL {own}, the source is {newest}"
        yield Finding("warning", _CHECK, message, hint)


def _major(conn: Connection) -> int:
    return conn.info.server_version // 10_000


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
