"""A mirror follows what DDL made of its table, or says why it has to be filled anew.

A column that is added has, in the rows there were, what the source's catalog says of rows that are
older than it (``attmissingval``), so that they show its default as in the source. A column's type
is changed in place if that rewrites no row here, and nothing has rewritten the source's since the
fill. All else would be a guess, and is a refill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import psycopg

from cdc.protocol.relation import Column
from cdc.source import errors as source_errors
from cdc.source.postgres import identifier, literal
from cdc.source.table_lookup import table_files
from cdc.source.types import load_types
from jobs.state.mirrors.catalog import Attribute, describe_column
from jobs.state.mirrors.mirror_record import MirrorRecord, mark_stale, save_table
from jobs.state.mirrors.schemas_topic import SentColumn, SentVersion
from jobs.state.mirrors.table import MirrorColumn, MirrorTable
from jobs.state.mirrors.table_changes import Changes, Refill, changes, with_version
from jobs.state.mirrors.types import MirrorTypes
from jobs.state.server.connection import Connection, translated

_ATTRIBUTE: Final = """
select a.attnum::int, a.attname, a.atttypid::bigint, a.atttypmod, a.attcollation::bigint, '',
       a.atthasdef or a.attidentity <> '' or a.attgenerated <> '', a.atthasmissing,
       (a.attmissingval::text::text[])[1]
from pg_catalog.pg_attribute a
where a.attrelid = %s::oid and a.attnum = %s and not a.attisdropped
"""
_FILE: Final = "select pg_catalog.pg_relation_filenode(%s::text::regclass)"


class _AddedColumn(NamedTuple):
    """A column at present. ``has_value``: rows that are inserted without it may get one, which is
    told (``missing``) if the rows there were have it without being written anew."""

    attribute: Attribute
    has_value: bool
    has_missing: bool
    missing: str | None


def _treated(column: MirrorColumn, sent: SentColumn) -> MirrorColumn:
    how, oid, typmod = sent.treatment, sent.source_oid, sent.source_typmod
    return replace(column, treatment=how, source_oid=oid, source_typmod=typmod)


class _RefillError(Exception):
    """The mirror cannot follow; ``reason`` as of ``Refill``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def follow(
    state: Connection,
    session: Connection,
    types: MirrorTypes,
    record: MirrorRecord,
    version: SentVersion,
) -> MirrorTable | Refill:
    """Give a mirror the columns of a version that is newer than its own, in the caller's
    transaction with the state database, or mark it as stale.

    ``session`` is one with the source. Images of the mirror have to be prepared again then. Raises
    ``RetryableError`` when a server is away.
    """
    wanted = changes(record.table, version)
    with translated(f"changing the mirror of {record.table.label}"):
        if isinstance(wanted, Refill):
            made: MirrorTable | Refill = wanted
        else:
            made = _Mirror(state, session, types, record.table).follow(wanted, version)
        if isinstance(made, Refill):
            mark_stale(state, record.id, made.reason)
        else:
            save_table(state, record.id, made)
    return made


class _Mirror:
    def __init__(
        self, state: Connection, session: Connection, types: MirrorTypes, table: MirrorTable
    ) -> None:
        self._state, self._session, self._types, self._table = state, session, types, table

    def follow(self, found: Changes, version: SentVersion) -> MirrorTable | Refill:
        try:
            with self._state.transaction():
                return self._changed(found, version)
        except _RefillError as error:
            return Refill(error.reason)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            return Refill(f"it was altered, and its mirror cannot be (SQLSTATE {error.sqlstate})")

    def _changed(self, found: Changes, version: SentVersion) -> MirrorTable:
        columns = [one for one in self._table.columns if one not in found.dropped]
        for column in found.dropped:
            self._alter(f"drop column {column.quoted}")
        columns = self._renamed(columns, found.renamed)
        for column, sent in found.retyped:
            place = next(i for i, one in enumerate(columns) if one.attnum == column.attnum)
            columns[place] = self._retyped(columns[place], sent)
        columns += [self._added(sent) for sent in found.added]
        nullable = {sent.attnum: sent.nullable for sent in version.columns}
        columns = [replace(one, nullable=nullable.get(one.attnum, one.nullable)) for one in columns]
        names = {one.attnum: one.name for one in columns}
        key = tuple(names[one.attnum] for one in self._table.key_columns)
        highest = max([self._table.highest, *(one.attnum or 0 for one in version.columns)])
        return replace(
            self._table,
            schema_id=version.schema_id,
            columns=tuple(columns),
            key=key,
            highest=highest,
            versions=self._table.versions
            if version.of_catalog
            else with_version(self._table, version),
            read_lsn=version.lsn if version.of_catalog else 0,
        )

    def _alter(self, action: str) -> None:
        self._state.execute(f"alter table {self._table.relation} {action}".encode())

    def _renamed(
        self, columns: Sequence[MirrorColumn], renamed: Sequence[tuple[MirrorColumn, str]]
    ) -> list[MirrorColumn]:
        """Names may have been exchanged: each column is out of the way first."""
        tables = [self._table.relation]
        for beside in (True, False):
            for number, (column, name) in enumerate(renamed):
                between = identifier(f"__renamed_{number}")
                was, now = (column.quoted, between) if beside else (between, identifier(name))
                of_key = [self._table.tombstones] if column.name in self._table.key else []
                for table in [*tables, *of_key]:
                    self._state.execute(f"alter table {table} rename {was} to {now}".encode())
        names = {column.attnum: name for column, name in renamed}
        found = [replace(one, name=names.get(one.attnum, one.name)) for one in columns]
        return [self._expressed(one) if one.generated and renamed else one for one in found]

    def _expressed(self, column: MirrorColumn) -> MirrorColumn:
        """A generated column, with its expression under the names of now."""
        row = self._state.execute(
            b"select pg_catalog.pg_get_expr(d.adbin, d.adrelid) from pg_catalog.pg_attrdef d "
            b"join pg_catalog.pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum "
            b"where d.adrelid = %s::text::regclass and a.attname = %s",
            (self._table.relation, column.name),
        ).fetchone()
        return replace(column, generated=row[0]) if row else column

    def _retyped(self, column: MirrorColumn, sent: SentColumn) -> MirrorColumn:
        found = self._at_present(sent)
        is_other = column.source_oid != sent.source_oid  # its texts may be other ones
        if found is None or is_other or self._is_rewritten():
            raise _RefillError(f"its column {column.name} has another type")
        now = describe_column(self._types, self._state, found.attribute, self._published(sent))
        if (now.sql, now.collation) != (column.sql, column.collation):
            file = self._file()
            collate = f" collate {now.collation}" if now.collation else ""
            self._alter(f"alter column {column.quoted} type {now.sql}{collate}")
            if self._file() != file:
                raise _RefillError(f"its column {column.name} has another type")
        return replace(_treated(now, sent), name=column.name, missing=column.missing)

    def _added(self, sent: SentColumn) -> MirrorColumn:
        found = self._at_present(sent)
        if found is None:
            raise _RefillError(f"its column {sent.name} was added, and changed again since")
        told = found.has_missing or not (found.has_value or self._is_rewritten())
        if sent.treatment and found.missing is not None:  # the catalog has it as it was
            raise _RefillError(f"its new column {sent.name} has a default, which is to be treated")
        if not told and self._has_rows():
            raise _RefillError(f"what its new column {sent.name} has in older rows is not told")
        column = describe_column(self._types, self._state, found.attribute, self._published(sent))
        missing = found.missing
        if missing is not None and (made := column.filled_text):
            missing = made(missing.encode()).decode()
        column = replace(_treated(column, sent), name=sent.name, missing=missing)
        default = "" if missing is None else f" default {literal(missing)}::{column.sql}"
        self._alter(f"add column {column.declaration}{default}")
        if default:
            self._alter(f"alter column {column.quoted} drop default")
        return column

    def _at_present(self, sent: SentColumn) -> _AddedColumn | None:
        """The column in the source's catalog; None if it is gone or of another type by now."""
        with source_errors.translated(f"reading the catalog for {self._table.label}"):
            row = self._session.execute(_ATTRIBUTE, (self._table.oid, sent.attnum)).fetchone()
        if row is None:
            return None
        found = _AddedColumn(Attribute._make(row[:6]), *row[6:])
        if sent.treatment:
            attribute = found.attribute._replace(type_oid=sent.type_oid, typmod=-1, collation=0)
            found = found._replace(attribute=attribute)
        if found.attribute.type_oid != sent.type_oid:
            return None
        if found.attribute.type_oid not in self._types.known.types:
            self._types.refresh()
        is_same = found.attribute.typmod in (-1, sent.typmod)
        return found if is_same else None

    def _published(self, sent: SentColumn) -> Column:
        info = load_types(self._session)[sent.type_oid]
        is_key = any(one.attnum == sent.attnum for one in self._table.key_columns)
        return Column(sent.name, info, sent.typmod, is_key, sent.nullable, sent.attnum)

    def _is_rewritten(self) -> bool:
        return table_files(self._session, self._table.oid)[1] != self._table.files

    def _has_rows(self) -> bool:
        query = f"select exists (select from {self._table.relation})"
        return self._state.execute(query.encode()).fetchone() == (True,)

    def _file(self) -> int:
        row = self._state.execute(_FILE, (self._table.relation,)).fetchone()
        assert row is not None, "it is a function"
        return int(row[0])
