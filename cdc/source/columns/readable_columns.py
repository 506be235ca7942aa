"""What is read of a table whose publication leaves columns out, and the rights for that.

Such a table is never read as a whole: SELECT on its published columns is enough. Beside them a
snapshot reads ``ctid`` and ``xmin``, which are columns to a GRANT as well, and ``verify`` the
generated columns that mirrors compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cdc.config import Source
from cdc.source.catalog import published
from cdc.source.columns.excluded_columns import column_lists
from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier
from cdc.source.selection import Table

SYSTEM: Final = ("ctid", "xmin")
# Since PostgreSQL 15 it is the default that depends on what a generated column is computed from.
_COLUMNS: Final = """
select a.attnum::int, a.attname, a.attgenerated <> '',
       array(select d.refobjsubid from pg_catalog.pg_depend d
             left join pg_catalog.pg_attrdef f
                  on f.oid = d.objid and d.classid = 'pg_catalog.pg_attrdef'::regclass
             where d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = a.attrelid
               and d.refobjsubid not in (0, a.attnum)
               and ((d.classid = d.refclassid and d.objid = a.attrelid and d.objsubid = a.attnum)
                    or (f.adrelid = a.attrelid and f.adnum = a.attnum)))
from pg_catalog.pg_attribute a
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
Readable = dict[tuple[str, str], tuple[str, ...]]
"""Columns by schema and table; of tables that are not read as a whole."""


def readable_columns(conn: Connection, source: Source, tables: Sequence[Table]) -> Readable:
    """The columns on which SELECT is needed, for what is published now or, where ``source.columns``
    excludes columns, will be. Raises ``SourceError`` as ``column_lists`` does."""
    lists, found = column_lists(conn, source, tables), Readable()
    for table in tables:
        at = table.schema, table.name
        limits = published(conn, table.oid, source.publication_name)
        if at not in lists and limits.columns is None:
            continue
        with translated(f"reading the columns of {table.label}"):
            columns = conn.execute(_COLUMNS, (table.oid,)).fetchall()
        names = set(lists[at].columns) if at in lists else set[str]()
        sent = {
            attnum
            for attnum, name, *_ in columns
            if (name in names if at in lists else attnum in (limits.columns or ()))
        }
        excluded = source.excluded(table.label)
        read = [
            name
            for attnum, name, generated, of in columns
            if attnum in sent or (generated and name not in excluded and sent.issuperset(of))
        ]
        found[at] = (*read, *SYSTEM)
    return found


def select_grants(tables: Sequence[Table], readable: Readable, role: str) -> list[str]:
    """The SQL that lets a role read tables, each as a whole or its ``readable`` columns. Pure."""
    to = f"TO {identifier(role)}"
    whole = ", ".join(_quoted(one) for one in tables if (one.schema, one.name) not in readable)
    grants = [f"GRANT SELECT ON {whole} {to}"] if whole else []
    return grants + [
        f"GRANT SELECT ({', '.join(map(identifier, of))}) ON {_quoted(one)} {to}"
        for one in tables
        if (of := readable.get((one.schema, one.name)))
    ]


_GRANTED: Final = """
select c.relowner <> r.oid and (
    exists (select from pg_catalog.aclexplode(c.relacl) g
            where g.grantee = r.oid and g.privilege_type = 'SELECT')
    or exists (select from pg_catalog.pg_attribute a, pg_catalog.aclexplode(a.attacl) g
               where a.attrelid = c.oid and g.grantee = r.oid and g.privilege_type = 'SELECT'
                 and a.attname <> all(%s::text[])))
from pg_catalog.pg_class c, pg_catalog.pg_roles r where c.oid = %s::oid and r.rolname = %s
"""


def surplus_revokes(
    conn: Connection, tables: Sequence[Table], readable: Readable, role: str
) -> list[str]:
    """The SQL that takes from a role what it was granted to read more than the ``readable`` columns
    by: of tables that were read as a whole before a column was excluded."""
    revokes = []
    for table in tables:
        if (of := readable.get((table.schema, table.name))) is None:
            continue
        with translated(f"reading the privileges on {table.label}"):
            row = conn.execute(_GRANTED, (list(of), table.oid, role)).fetchone()
        if row == (True,):
            revokes.append(f"REVOKE SELECT ON {_quoted(table)} FROM {identifier(role)}")
    return revokes


_MAY_READ: Final = """
select pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')
       and (pg_catalog.has_table_privilege(c.oid, 'SELECT') or (
           select pg_catalog.bool_and(pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT'))
           from pg_catalog.pg_attribute a
           where a.attrelid = c.oid and not a.attisdropped
             and (a.attname = any(%(read)s::text[])
                  or (%(whole)s and (a.attnum > 0 or a.attname = any(%(system)s::text[])))))),
       pg_catalog.row_security_active(c.oid)
from pg_catalog.pg_class c where c.oid = %(oid)s::oid
"""


def may_read(
    conn: Connection, table: Table, readable: Mapping[tuple[str, str], Sequence[str]]
) -> tuple[bool, bool]:
    """Whether the session's role may read a table as far as it is read, and whether row-level
    security hides rows from it."""
    of = readable.get((table.schema, table.name))
    asked = {
        "oid": table.oid,
        "read": list(of or ()),
        "whole": of is None,
        "system": list(SYSTEM),
    }
    with translated(f"reading the privileges on {table.label}"):
        row = conn.execute(_MAY_READ, asked).fetchone()
    return (bool(row[0]), bool(row[1])) if row else (True, False)


def _quoted(table: Table) -> str:
    return f"{identifier(table.schema)}.{identifier(table.name)}"
