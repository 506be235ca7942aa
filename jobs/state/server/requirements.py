"""What a PostgreSQL has to be before it can be a state database; asked of each at its start."""

from __future__ import annotations

from typing import Final

from cdc.errors import StateError
from jobs.state.server.binaries import MINIMUM_MAJOR
from jobs.state.server.connection import Connection, shown_place, translated
from jobs.state.server.identity import Identity

SCHEMAS: Final = (
    "mirror", "dirty", "shown", "types", "tombstones", "groups", "queue", "staged",
    "feed_rows", "feed_log",
)  # fmt: skip
"""That are made beside ``headwater``: by migrations, and by the first large batch."""
_DIGITS: Final = 10_000
_FACTS: Final = """
select pg_catalog.current_setting('server_version_num')::int,
       pg_catalog.pg_encoding_to_char(d.encoding),
       pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('transaction_read_only') = 'on',
       pg_catalog.has_database_privilege(d.oid, 'CREATE'),
       pg_catalog.has_database_privilege(d.oid, 'TEMP'),
       pg_catalog.to_regclass('headwater.identity') is not null,
       pg_catalog.to_regclass('headwater.snapshot') is not null,  -- `headwater init` makes it
       array(select nspname::text from pg_catalog.pg_namespace where nspname = any(%s)),
       current_user, d.datname
from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()
"""
_SYSTEM: Final = """
select case when pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')
            then (select system_identifier::text from pg_catalog.pg_control_system()) end
"""


def refuse_unfit(conn: Connection, dsn: str, source: Identity | None) -> None:
    """Raise ``StateError`` for what cannot be a state database, before anything is made in it.

    ``source`` is the source that it must not be; ``None`` if that is not known.
    """
    with translated("asking what the state database is"):
        row = conn.execute(_FACTS, [list(SCHEMAS)]).fetchone()
    assert row is not None
    version, encoding, standby, read_only, create, temp, ours, captured, taken, role, name = row
    where = f"state database {shown_place(dsn)}"
    if version < MINIMUM_MAJOR * _DIGITS:
        raise StateError(
            f"{where}: is PostgreSQL {version // _DIGITS}",
            f"name a PostgreSQL {MINIMUM_MAJOR} or newer in apply.state_dsn",
        )
    if encoding != "UTF8":
        raise StateError(
            f"{where}: its encoding is {encoding}",
            "create one with `CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'` and name it",
        )
    if standby:
        raise StateError(
            f"{where}: is a standby, which accepts no writes", "set the primary in apply.state_dsn"
        )
    if read_only:
        raise StateError(
            f"{where}: is read-only",
            f"run `ALTER DATABASE {name} RESET default_transaction_read_only`",
        )
    if captured or (source is not None and _is(conn, source, name)):
        raise StateError(
            f"{where}: is the source itself, and views must not slow down its writes",
            "set another database in apply.state_dsn, or leave it out to use the embedded one",
        )
    for right, held in (("CREATE", create), ("TEMPORARY", temp)):
        if not held:
            raise StateError(
                f"{where}: the role lacks {right} on the database",
                f"run `GRANT {right} ON DATABASE {name} TO {role}`",
            )
    if taken and not ours:
        raise StateError(
            f"{where}: has a schema {taken[0]} that Headwater did not create",
            "set a separate database in apply.state_dsn",
        )


def refuse_full(conn: Connection) -> None:
    """Raise ``RetryableError`` if nothing can be written; leaves nothing behind."""
    with translated("writing to the state database"), conn.transaction(force_rollback=True):
        conn.execute("create temporary table room on commit drop as select 1")


def _is(conn: Connection, source: Identity, name: str) -> bool:
    with translated("asking for the state database's system identifier"):
        row = conn.execute(_SYSTEM).fetchone()
    return row is not None and (row[0], name) == (source.system_identifier, source.database)
