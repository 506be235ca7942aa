"""The publication: which tables, of which all four operations reach the stream.

Partitioned tables are published through their root, so a partition's rows belong to the table
that was named. The publication has to exist before the slot: decoding looks it up in the catalog
as it was at each change. https://www.postgresql.org/docs/current/sql-createpublication.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from cdc.errors import HeadwaterError, SourceError
from cdc.source.columns.excluded_columns import ColumnList
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, identifier
from cdc.source.selection import Table

_OPTIONS = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"

_PUBLICATION = """
select puballtables, pubinsert and pubupdate and pubdelete and pubtruncate, pubviaroot
from pg_catalog.pg_publication where pubname = %s
"""
# Members as they were added; the view of published tables would hide how they came in.
_MEMBERS = """
select n.nspname, c.relname
from pg_catalog.pg_publication p
join pg_catalog.pg_publication_rel r on r.prpubid = p.oid
join pg_catalog.pg_class c on c.oid = r.prrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where p.pubname = %s
"""
_SCHEMAS = """
select n.nspname
from pg_catalog.pg_publication p
join pg_catalog.pg_publication_namespace s on s.pnpubid = p.oid
join pg_catalog.pg_namespace n on n.oid = s.pnnspid
where p.pubname = %s
"""


class Publication(NamedTuple):
    """A publication as the catalog has it. ``tables`` holds ``(schema, table)``."""

    tables: frozenset[tuple[str, str]]
    publishes_all: bool
    """All four operations."""
    via_root: bool
    wholesale: str = ""
    """Set for ``FOR ALL TABLES`` and ``FOR TABLES IN SCHEMA``, whose tables nobody listed."""


def unpublished(publication: Publication | None, tables: Sequence[Table]) -> list[Table]:
    """Those of ``tables`` that a publication of single tables does not have. Pure."""
    if publication is None or publication.wholesale:
        return []
    return [table for table in tables if (table.schema, table.name) not in publication.tables]


def read_publication(conn: Connection, name: str) -> Publication | None:
    """The publication of that name, None without one."""
    with translated(f"reading publication {name}"):
        head = conn.execute(_PUBLICATION, (name,)).fetchone()
        if head is None:
            return None
        members = conn.execute(_MEMBERS, (name,)).fetchall()
        schemas = []
        if conn.info.server_version >= 150000:
            schemas = [row[0] for row in conn.execute(_SCHEMAS, (name,))]
    wholesale = "FOR ALL TABLES" if head[0] else ""
    if schemas:
        wholesale = f"FOR TABLES IN SCHEMA {', '.join(schemas)}"
    return Publication(frozenset((row[0], row[1]) for row in members), head[1], head[2], wholesale)


def changes(
    name: str,
    current: Publication | None,
    tables: Sequence[Table],
    lists: Mapping[tuple[str, str], ColumnList] = MappingProxyType({}),
) -> list[str]:
    """The SQL that makes the publication fit ``tables``; empty when it fits. Pure.

    Row filters and column lists of tables that stay are kept, but that ``lists`` says which columns
    may be published. Raises ``SourceError`` for a publication that takes in tables by itself: one
    without replica identity would come in unseen and make the application's UPDATE and DELETE fail.
    """
    quoted = identifier(name)
    wanted = {(table.schema, table.name) for table in tables}
    if current is None:
        return [f"CREATE PUBLICATION {quoted} FOR TABLE {_only(wanted, lists)} WITH ({_OPTIONS})"]
    if current.wholesale:
        raise SourceError(
            f"publication {name} is {current.wholesale}; Headwater only publishes the tables in "
            "source.tables",
            "set source.publication to another name",
        )
    statements = []
    if not current.publishes_all or not current.via_root:
        statements.append(f"ALTER PUBLICATION {quoted} SET ({_OPTIONS})")
    if missing := wanted - current.tables:
        statements.append(f"ALTER PUBLICATION {quoted} ADD TABLE {_only(missing, lists)}")
    if surplus := current.tables - wanted:
        statements.append(f"ALTER PUBLICATION {quoted} DROP TABLE {_only(surplus)}")
    return statements + list_changes(name, current, lists)


def list_changes(
    name: str, current: Publication, lists: Mapping[tuple[str, str], ColumnList]
) -> list[str]:
    """The SQL, for one transaction, after which it publishes no excluded column. Pure."""
    quoted = identifier(name)
    return [
        f"ALTER PUBLICATION {quoted} {change}"
        for table, one in lists.items()
        if one.exposed and table in current.tables
        for change in (f"DROP TABLE {_only({table})}", f"ADD TABLE {_only({table}, lists)}")
    ]


def ensure_publication(
    conn: Connection,
    name: str,
    tables: Sequence[Table],
    lists: Mapping[tuple[str, str], ColumnList] = MappingProxyType({}),
) -> list[str]:
    """Make the publication fit ``tables``, all or nothing, and return the SQL that was run.

    Raises ``SourceError`` with that SQL when the role may not run it.
    """
    statements = changes(name, read_publication(conn, name), tables, lists)
    if not statements:
        return []
    try:
        with translated(f"publication {name}"), conn.transaction():
            for statement in statements:
                conn.execute(statement.encode())
    except HeadwaterError as error:
        if sqlstate(error) != "42501":
            raise
        raise SourceError(error.message, denied_hint(statements)) from error
    return statements


def add_tables(
    conn: Connection,
    name: str,
    tables: Sequence[Table],
    lists: Mapping[tuple[str, str], ColumnList] = MappingProxyType({}),
) -> None:
    """Add tables that are not in it; ``SourceError`` with the SQL if the role may not run that."""
    _alter(conn, name, addition(name, tables, lists))


def addition(
    name: str,
    tables: Sequence[Table],
    lists: Mapping[tuple[str, str], ColumnList] = MappingProxyType({}),
) -> str:
    """The SQL that adds tables which are not in it. Pure."""
    added = {(table.schema, table.name) for table in tables}
    return f"ALTER PUBLICATION {identifier(name)} ADD TABLE {_only(added, lists)}"


def drop_tables(conn: Connection, name: str, tables: Iterable[tuple[str, str]]) -> None:
    """Remove tables that are in it, each ``(schema, table)``; raises as ``add_tables``."""
    _alter(conn, name, f"ALTER PUBLICATION {identifier(name)} DROP TABLE {_only(set(tables))}")


def drop_publication(conn: Connection, name: str) -> None:
    """Remove it, if it is there; ``SourceError`` if the role may not."""
    with translated(f"publication {name}"):
        conn.execute(f"DROP PUBLICATION IF EXISTS {identifier(name)}".encode())


def _alter(conn: Connection, name: str, statement: str) -> None:
    try:
        with translated(f"publication {name}"):
            conn.execute(statement.encode())
    except HeadwaterError as error:
        if sqlstate(error) != "42501":
            raise
        raise SourceError(error.message, denied_hint([statement])) from error


def denied_hint(statements: Sequence[str]) -> str:
    """What to do when the role may not change the publication. PostgreSQL asks for the owner of the
    publication, who has to own each table that is added, too."""
    return (
        "let a superuser, or a role that owns both the publication and the tables, run: "
        f"{'; '.join(statements)}; or let a superuser run the script of "
        "`headwater init --print-sql` again, which also grants what is to be read"
    )


def _only(
    tables: AbstractSet[tuple[str, str]],
    lists: Mapping[tuple[str, str], ColumnList] = MappingProxyType({}),
) -> str:
    # ONLY: tables that inherit from one of these are tables of their own.
    return ", ".join(
        f"ONLY {identifier(schema)}.{identifier(table)}{_limits(lists.get((schema, table)))}"
        for schema, table in sorted(tables)
    )


def _limits(of: ColumnList | None) -> str:
    if of is None:
        return ""
    row_filter = f" WHERE ({of.row_filter})" if of.row_filter else ""
    return f" ({', '.join(map(identifier, of.columns))}){row_filter}"
