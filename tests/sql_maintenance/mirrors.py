"""Mirrors of a database's tables in the same database, changed batch by batch as apply does it.

The tables are in ``public``; a batch changes them first. The mirrors are in ``mirror`` and lag
behind until ``Batch`` moves them on, with the images of the rows that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg

from views.maintain import MirrorColumn, MirrorTable

Connection = psycopg.Connection[tuple[object, ...]]

_COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
       exists (select from pg_opclass o join pg_amproc p on p.amprocfamily = o.opcfamily
               join pg_am m on m.oid = o.opcmethod and m.amname = 'btree'
               where p.amprocnum = 4 and o.opcdefault
               and o.opcintype = case when t.typname in ('varchar') then 'text'::regtype
                                      else a.atttypid end)
from pg_class c join pg_attribute a on a.attrelid = c.oid join pg_type t on t.oid = a.atttypid
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0
and not a.attisdropped
order by c.relname, a.attnum
"""
_KEYS = """
select c.relname, a.attname
from pg_class c join pg_index i on i.indrelid = c.oid and i.indisprimary
join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
where c.relnamespace = 'public'::regnamespace
order by c.relname, array_position(i.indkey::int2[], a.attnum)
"""


def tables_of(connection: Connection) -> dict[str, MirrorTable]:
    """The tables of ``public`` by ``schema.table``."""
    columns: dict[str, list[MirrorColumn]] = {}
    for table, name, kind, nullable, image in connection.execute(_COLUMNS):
        made = MirrorColumn(str(name), str(kind), bool(nullable), bool(image))
        columns.setdefault(str(table), []).append(made)
    keys: dict[str, list[str]] = {}
    for table, name in connection.execute(_KEYS):
        keys.setdefault(str(table), []).append(str(name))
    return {
        f"public.{name}": MirrorTable("public", name, tuple(found), tuple(keys[name]))
        for name, found in columns.items()
    }


def mirror(table: str) -> str:
    """The mirror of ``schema.table``."""
    return f'mirror."{table}"'


def images(table: str) -> str:
    """Old and new images of a table in the batch that is under way."""
    return f'(select * from old."{table}" union all select * from new."{table}")'


def fill(connection: Connection, tables: Iterable[MirrorTable]) -> None:
    """Make all mirrors, as the tables are now."""
    for schema in ("mirror", "old", "new"):
        connection.execute(f"create schema {schema}")
    for table in tables:
        key = ", ".join(table.key)
        connection.execute(f"create table {mirror(table.table)} as select * from {table.name}")
        connection.execute(f"alter table {mirror(table.table)} add primary key ({key})")
        for kind in ("old", "new"):
            connection.execute(f'create table {kind}."{table.table}" (like {table.name})')


def stage(connection: Connection, tables: Iterable[MirrorTable]) -> tuple[str, ...]:
    """Put old and new images of all rows that differ from their mirrors; the tables that do."""
    touched = []
    for table in tables:
        same = " and ".join(f'here_."{name}" = there_."{name}"' for name in table.key)
        found = 0
        for kind, here, there in (
            ("old", mirror(table.table), table.name),
            ("new", table.name, mirror(table.table)),
        ):
            connection.execute(f'delete from {kind}."{table.table}"')
            cursor = connection.execute(
                f'insert into {kind}."{table.table}" select here_.* from {here} here_ where not '
                f"exists (select from {there} there_ where {same} and here_::text = there_::text)"
            )
            found += cursor.rowcount
        if found:
            touched.append(table.table)
    return tuple(touched)


def move(connection: Connection, tables: Iterable[MirrorTable], touched: Sequence[str]) -> None:
    """Apply the staged images to the mirrors."""
    for table in tables:
        if table.table not in touched:
            continue
        same = " and ".join(f'm."{name}" = o."{name}"' for name in table.key)
        connection.execute(
            f'delete from {mirror(table.table)} m using old."{table.table}" o where {same}'
        )
        connection.execute(f'insert into {mirror(table.table)} select * from new."{table.table}"')
