"""Checks of the source: server, role, tables. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.source.catalog import captured_tables
from cdc.source.columns.readable_columns import (
    Readable,
    may_read,
    readable_columns,
    select_grants,
)
from cdc.source.errors import translated
from cdc.source.keys import key_faults
from cdc.source.postgres import Connection, identifier
from cdc.source.selection import Table
from cdc.source.slot import slot_state
from headwater.check.finding import Finding, by_sql

OLDEST: Final = 14
NEWEST: Final = 18
"""Major versions of PostgreSQL that the tests run against, and those between."""

_SETTINGS = """
select name, setting from pg_catalog.pg_settings where name = any(%s)
"""
_NAMES = [
    "wal_level",
    "max_replication_slots",
    "max_wal_senders",
    "max_slot_wal_keep_size",
    "idle_replication_slot_timeout",
    "wal_sender_timeout",
    "synchronous_commit",
]
_USED = """
select (select count(*) from pg_catalog.pg_replication_slots),
       (select count(*) from pg_catalog.pg_stat_replication)
"""
_ROLE = """
select current_user, r.rolreplication or r.rolsuper or exists (
           select from pg_catalog.pg_roles m  -- how Amazon RDS grants replication
           where m.rolname = 'rds_replication' and pg_catalog.pg_has_role(m.oid, 'member')),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       n.oid is not null,
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE')
                and pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false),
       pg_catalog.pg_is_in_recovery()
from pg_catalog.pg_roles r
left join pg_catalog.pg_namespace n on n.nspname = 'headwater'
where r.rolname = current_user
"""


@dataclass(slots=True)
class Source:
    """What the checks of the source look at, and what the first of them find for the later ones.

    ``known``: ``headwater init`` was here; ``initialised``: it has completed.
    """

    config: Config
    conn: Connection
    known: bool
    initialised: bool
    settings: dict[str, str] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    wrong_keys: set[str] = field(default_factory=set)
    outbox_tables: set[str] = field(default_factory=set)
    new_tables: set[str] = field(default_factory=set)
    """Those that the publication lacks since: they have no topics yet."""


def server(source: Source) -> Iterator[Finding]:
    """The server's version. First: it also reads the settings for the others."""
    with translated("reading the server's settings"):
        source.settings = dict(source.conn.execute(_SETTINGS, (_NAMES,)).fetchall())
    version = source.conn.info.server_version // 10_000
    if version < OLDEST:
        yield Finding(
            "error", "version", f"PostgreSQL {version}", f"use PostgreSQL {OLDEST} or newer"
        )
    elif version > NEWEST:
        yield Finding("warning", "version", f"PostgreSQL {version} is newer than what was tested")
    else:
        yield Finding("ok", "version", f"PostgreSQL {version}")


def wal_level(source: Source) -> Iterator[Finding]:
    """Whether WAL carries what decoding needs."""
    level = source.settings.get("wal_level", "unknown")
    if level == "logical":
        yield Finding("ok", "wal_level", level)
    else:
        sql = "ALTER SYSTEM SET wal_level = logical"
        hint = f"{sql}, then restart PostgreSQL"
        yield Finding("error", "wal_level", f"wal_level is {level}, not logical", hint, (sql,))


def free_places(source: Source) -> Iterator[Finding]:
    """Room for one more slot and one more WAL sender."""
    with translated("counting slots and WAL senders"):
        row = source.conn.execute(_USED).fetchone()
    assert row is not None
    state = slot_state(source.conn, source.config.source.slot_name)
    for setting, used, enough in (
        ("max_replication_slots", row[0], state is not None),
        ("max_wal_senders", row[1], state is not None and state.active),
    ):
        limit = int(source.settings[setting])
        said = f"{used} of {limit} in use"
        if enough or used < limit:
            yield Finding("ok", setting, said)
        else:
            hint = f"raise {setting} and restart, or drop what is not needed"
            yield Finding("error", setting, f"{setting}: none is free, {said}", hint)


def privileges(source: Source) -> Iterator[Finding]:
    """What the role may do: replicate, and write its own schema."""
    with translated("reading the role's privileges"):
        row = source.conn.execute(_ROLE).fetchone()
    assert row is not None
    role, replicates, may_create, has_schema, owns_schema, standby = row
    if standby:
        hint = "name the primary in source.dsn"
        yield Finding("error", "server", "the server is a standby", hint)
    if replicates:
        yield Finding("ok", "replication privilege", f"role {role} may replicate")
    else:
        sql = f"ALTER ROLE {identifier(role)} REPLICATION"
        yield by_sql("error", "replication privilege", f"role {role} may not replicate", sql)
    if owns_schema or (may_create and not has_schema):
        yield Finding("ok", "schema headwater", "there" if has_schema else "init creates it")
    else:
        message = f"role {role} may not create the schema headwater"
        sql = f"CREATE SCHEMA headwater AUTHORIZATION {identifier(role)}"
        if has_schema:
            message = f"role {role} may not write the schema headwater"
            sql = f"GRANT ALL ON SCHEMA headwater TO {identifier(role)}"
        yield by_sql("error", "schema headwater", message, sql)


def tables(source: Source) -> Iterator[Finding]:
    """The tables that the configuration chooses, and that the role can read them."""
    try:
        source.tables = captured_tables(source.conn, source.config.source)
    except HeadwaterError as error:
        for line in error.message.splitlines():
            yield Finding("error", "tables", line)
        return
    labels = [table.label for table in source.tables]
    shown = ", ".join(labels[:5]) + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")
    yield Finding("ok", "tables", f"{len(labels)}: {shown}")
    yield from _readable(source)


def _readable(source: Source) -> Iterator[Finding]:
    """One finding for all tables that the role may not read, and one for those of which it may read
    some rows only."""
    denied, hidden = list[Table](), list[Table]()
    readable = Readable()
    with suppress(HeadwaterError):  # of source.columns: what is wrong there is told with them
        readable = readable_columns(source.conn, source.config.source, source.tables)
    for table in source.tables:
        allowed, partly = may_read(source.conn, table, readable)
        if not allowed:
            denied.append(table)
        elif partly:
            hidden.append(table)
    role = source.conn.info.user
    if denied:
        schemas = ", ".join(sorted({identifier(table.schema) for table in denied}))
        usage = f"GRANT USAGE ON SCHEMA {schemas} TO {identifier(role)}"
        selects = select_grants(denied, readable, role)
        message = f"role {role} may not read {', '.join(table.label for table in denied)}"
        yield by_sql("error", "select", message, usage, *selects)
    if hidden:
        labels = ", ".join(table.label for table in hidden)
        message = f"row-level security hides rows of {labels} from role {role}"
        yield by_sql("error", "select", message, f"ALTER ROLE {identifier(role)} BYPASSRLS")


def keys(source: Source) -> Iterator[Finding]:
    """Whether each entry of ``source.keys`` is of a captured table, and of columns that it has."""
    if not source.tables:  # what is wrong with the tables has been said
        return
    for fault in key_faults(source.conn, source.config.source, source.tables):
        level: Literal["error", "warning"] = "error" if fault.stops else "warning"
        yield Finding(level, "keys", fault.message, fault.hint)
        if fault.stops:
            source.wrong_keys.add(fault.table)
