"""Runs the numbered ``.sql`` files that make the schema ``headwater``. Forward only.

What is missing runs in one transaction with its records in ``headwater.migration``, under an
advisory lock, so two commands started together do not run one twice. A file that was applied and
has changed since, or that a newer Headwater applied, is an error: the schema is not what this
program was written for.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from cdc.errors import RetryableError, SourceError
from cdc.source.schema_owner import refuse_lesser_owner

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
LOCK: Final = 0x6865_6164_7761_7472  # "headwatr"
"""Of whoever makes what all sources of a database share."""
_DENIED = (
    "let an owner of the database run: CREATE SCHEMA headwater AUTHORIZATION {role}; "
    "(or GRANT CREATE ON DATABASE)"
)


class Migration(NamedTuple):
    """One file. ``checksum`` is the SHA-256 of its text."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations(folder: Path = Path(__file__).parent) -> list[Migration]:
    """The files of ``folder`` in order; numbered from 1 without a gap."""
    found = [
        Migration(int(match[1]), match[2], path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.sql"))
        if (match := _FILE.fullmatch(path.name))
    ]
    numbers = [migration.version for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations are not numbered 1, 2, 3...: {numbers}")
    return found


def migrate(conn: psycopg.Connection[Any], files: list[Migration] | None = None) -> list[Migration]:
    """Apply what is missing and return it; an empty list when the schema is up to date.

    ``conn`` is in autocommit mode, or in a transaction, of which this then is a part. Raises
    ``SourceError`` for a missing privilege, a changed file, a schema that is newer than this
    program, and for a superuser in a lesser role's schema.
    """
    files = migrations() if files is None else files
    refuse_lesser_owner(conn)
    try:
        with conn.transaction():
            conn.execute("select pg_catalog.pg_advisory_xact_lock(%s)", (LOCK,))
            return [_apply(conn, migration) for migration in pending(conn, files)]
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            f"cannot create the schema headwater: {error.diag.message_primary}",
            _DENIED.format(role=conn.info.user),
        ) from error
    except psycopg.OperationalError as error:
        raise RetryableError(f"migrating the schema headwater: {error}") from error
    except psycopg.Error as error:
        raise SourceError(f"migrating the schema headwater: {error}") from error


def pending(conn: psycopg.Connection[Any], files: list[Migration] | None = None) -> list[Migration]:
    """The migrations that ``migrate`` would apply; checks those that were. Changes nothing."""
    files = migrations() if files is None else files
    refuse_lesser_owner(conn)
    row = conn.execute("select pg_catalog.to_regclass('headwater.migration')::text").fetchone()
    if row is None or row[0] is None:
        return files
    applied = dict(conn.execute("select version, checksum from headwater.migration").fetchall())
    if newer := [version for version in applied if version > len(files)]:
        raise SourceError(
            f"the schema headwater is at version {max(newer)}, this version of Headwater supports "
            f"up to {len(files)}",
            "use the version of Headwater that migrated it",
        )
    for migration in files:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SourceError(
                f"migration {migration.version:04} ({migration.name}) differs from the one that "
                "was applied to this database",
                "install the version of Headwater that applied it, or drop the schema and "
                "start over",
            )
    return [migration for migration in files if migration.version not in applied]


def _apply(conn: psycopg.Connection[Any], migration: Migration) -> Migration:
    conn.execute(migration.sql.encode())
    conn.execute(
        "insert into headwater.migration (version, name, checksum) values (%s, %s, %s)",
        (migration.version, migration.name, migration.checksum),
    )
    return migration
