"""Numbered migrations of the state database: forward only, each in a transaction of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cdc.errors import SourceError, StateError
from jobs.state.server.connection import Connection
from migrations.runner import Migration, migrations
from migrations.runner import migrate as run
from migrations.runner import pending as missing

FOLDER: Final = Path(__file__).with_name("migrations")


def migrate(conn: Connection) -> list[Migration]:
    """Apply what is missing and return it. ``conn`` is in autocommit mode.

    Raises ``StateError`` for a missing right, or a schema that a newer Headwater made.
    """
    try:
        return run(conn, migrations(FOLDER))
    except SourceError as error:
        raise StateError(f"state database: {error.message}", error.hint) from error


def pending(conn: Connection) -> list[Migration]:
    """What ``migrate`` would apply; changes nothing."""
    try:
        return missing(conn, migrations(FOLDER))
    except SourceError as error:
        raise StateError(f"state database: {error.message}", error.hint) from error
