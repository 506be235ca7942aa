"""What the state database says of one view, for commands and applications beside apply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cdc.config import Config, View
from cdc.errors import RetryableError, StateError
from jobs.generations.view_locks import is_free
from jobs.generations.view_state import view_directory
from jobs.state.dead_letters.parked_keys import count_parked
from jobs.state.server.apply_lock import is_kept_elsewhere
from jobs.state.server.connection import Connection, connect, translated
from jobs.state.server.database import running_dsn
from jobs.state.server.location import home_of
from jobs.state.server.migration import pending
from jobs.state.views.generation_keys import live_record
from jobs.state.views.view_names import TableNames, read_names
from jobs.state.views.view_record import PAUSED, ViewRecord, unbuilt_errors


class ViewStatus(NamedTuple):
    """``record`` is the generation that readers see, None if nobody can say or there is none;
    ``parked`` counts its keys that wait, and those of its tables. ``applied`` says whether somebody
    keeps this view now, None if its state is elsewhere."""

    record: ViewRecord | None = None
    parked: int = 0
    applied: bool | None = None
    unbuilt: str = ""

    @property
    def error(self) -> str:
        """Why the view cannot be kept or built now, "" where it can."""
        return self.record.error if self.record else self.unbuilt


def view_status(config: Config, name: str) -> ViewStatus:
    """What is known of a view now. A state database that is away is no error."""
    try:
        with state_session(config) as conn:
            if conn is None:
                return ViewStatus(applied=False if _was_here(config) else None)
            record = live_record(conn, config, name)
            applied = is_kept_elsewhere(conn) and _is_kept(config, name, record)
            with translated(f"looking for what view {name} lacks"):
                if record is None:
                    unbuilt = unbuilt_errors(conn).get(name, "")
                    return ViewStatus(applied=applied, unbuilt=unbuilt)
                return ViewStatus(record, count_parked(conn, record), applied)
    except RetryableError:
        return ViewStatus()


@contextmanager
def state_session(config: Config) -> Iterator[Connection | None]:
    """A session with the state database in autocommit mode; None if ours does not run, or another
    one holds no state yet.

    Raises ``StateError`` for a wrong ``apply.state_dsn``, ``RetryableError`` if it is away.
    """
    dsn = running_dsn(config)
    if not dsn:
        yield None
        return
    try:
        session = connect(dsn, autocommit=True, application_name="headwater")
    except StateError:
        if config.apply.state_dsn:
            raise
        yield None  # ours is up, and has no database yet: it is being made
        return
    with session as conn:
        yield conn if _is_migrated(conn) else None


def known_names(config: Config, name: str, view: View) -> dict[str, TableNames]:
    """What the generation that readers see calls the columns of its tables, if it is of this
    declaration; nothing where the state database does not run."""
    try:
        with state_session(config) as conn:
            record = None if conn is None else live_record(conn, config, name)
            if conn is None or record is None:
                return {}
            if (record.sql, record.key) != (view.sql, tuple(view.key)):
                return {}
            return read_names(conn, record.id)
    except (RetryableError, StateError):
        return {}


def _is_kept(config: Config, name: str, record: ViewRecord | None) -> bool | None:
    """Whether the process that keeps views keeps this one: it may have been told not to, or have
    let it go. Whoever builds a view, or tries to keep it again, holds its lock."""
    directory = view_directory(config.apply.state, config.source.name, name)
    if record is not None and record.state != PAUSED:
        return True
    if config.apply.state_dsn and record is None and not directory.is_dir():
        return None
    return not is_free(directory, "stream")


def _was_here(config: Config) -> bool:
    """Whether the state database of ours is on this machine."""
    try:
        return home_of(config.apply.state, config.source.name).is_dir()
    except StateError:
        return False


def _is_migrated(conn: Connection) -> bool:
    """Whether it has all that is asked of it here: the apply that has just begun may not be so
    far, nor one of an older Headwater."""
    with translated("looking at the state database"):
        return not pending(conn)
