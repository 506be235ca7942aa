"""Mirrors filled from the source, exactly: COPY to COPY in an exported snapshot.

A temporary slot gives an LSN L and a snapshot that sees what was committed below it; what is at or
above L comes with the stream. The rows go from one server to the other as they are: in binary form
where both sides have the same types, else as text. Columns that are to be treated are, on the way,
and those whose type the state database lacks get the text that events have.
A mirror is filled beside the one that is there, if any, and takes its place and its indexes in the
same transaction: a fill that is killed has changed nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from psycopg import errors

from cdc.columnar.copy_text import treated_lines
from cdc.config import Source
from cdc.errors import RetryableError, SourceError
from cdc.protocol.relation import Relation, TypeInfo
from cdc.source import errors as source_errors
from cdc.source import postgres as source_postgres
from cdc.source.catalog import select_rows
from cdc.source.columns.excluded_columns import refuse_excluded
from cdc.source.columns.recorded_treatments import refuse_unrecorded
from cdc.source.copy_out import copy_out
from cdc.source.postgres import identifier, literal
from cdc.source.slot import create_slot
from cdc.source.table_lookup import lock_against_ddl, table_files
from jobs.state.mirrors.catalog import MirrorCatalog
from jobs.state.mirrors.mirror_record import save_filled
from jobs.state.mirrors.swap import copy_target, finish
from jobs.state.mirrors.table import LSN, ORDINAL, MirrorTable, create_sql
from jobs.state.mirrors.types import MirrorTypes
from jobs.state.server.connection import Connection, translated

ATTEMPTS: Final = 5
"""Snapshots that are taken before DDL that comes each time is an error."""
_BLOCK_BYTES: Final = 1 << 18
_BLOCK_ROWS: Final = 10_000
_BINARY: Final = frozenset(
    ("int2", "int4", "int8", "oid", "float4", "float8", "numeric", "bool", "text", "varchar")
) | {"bpchar", "name", "uuid", "date", "time", "timestamp", "timestamptz", "bytea", "json", "jsonb"}
_TRANSACTION_TIMEOUT_SINCE: Final = 170000
_EXPORT: Final = "select pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text"


class _Snapshot(NamedTuple):
    """``name`` is what a session enters it by; ``transactions`` are those that it has, in the form
    of ``pg_current_snapshot``."""

    lsn: int
    name: str
    transactions: str


class Filled(NamedTuple):
    """A mirror that holds the table as it was at ``lsn``."""

    id: int
    table: MirrorTable
    lsn: int
    rows: int
    seconds: float


class _MovedError(RetryableError):
    """DDL came between the snapshot and its reading."""


def fill(
    state: Connection,
    source: Source,
    oids: Sequence[int],
    *,
    slot_timeout_s: float = 300.0,
    on_wait: Callable[[str], None] = lambda _: None,
    on_rows: Callable[[str, int], None] = lambda _label, _rows: None,
    filled: Callable[[Connection, Filled], None] = lambda _state, _filled: None,
) -> list[Filled]:
    """Fill the mirrors of these tables of the source, or fill them anew, all as of one LSN; a table
    that DDL changes meanwhile as of a later one.

    ``state`` is in autocommit mode; each mirror is a transaction of its own, in which ``filled`` is
    called before it ends. All of a table that is published is mirrored: columns, and rows by the
    publication's filter. ``on_rows`` is told how many rows of a table are read, ``on_wait`` what
    the slot waits for. Raises ``SourceError``, ``StateError`` for what cannot be mirrored, and
    ``RetryableError`` where a server is away, or DDL comes each time.
    """
    with source_postgres.connect(source.dsn, application_name="headwater fill") as session:
        types = MirrorTypes(session, state)
        catalog = MirrorCatalog(types, state, source)
        pending, done = list(oids), []
        for _ in range(ATTEMPTS):
            with _snapshot(source, slot_timeout_s, on_wait) as snapshot:
                for oid in list(pending):
                    try:
                        one = _Table(state, source, session, catalog, on_rows, filled)
                        done.append(one.fill(oid, snapshot))
                        pending.remove(oid)
                    except _MovedError:
                        continue
            if not pending:
                return done
            catalog.refresh()
    raise RetryableError(
        f"the mirrors of {len(pending)} tables were not filled: DDL ran during each of "
        f"{ATTEMPTS} snapshots",
        "try again when migrations of the source have ended",
    )


@contextmanager
def _snapshot(
    source: Source, timeout_s: float, on_wait: Callable[[str], None]
) -> Iterator[_Snapshot]:
    """A transaction holds it: the slot is gone by then, so that no WAL is kept while rows are
    read."""
    slot = f"headwater_fill_{uuid.uuid4().hex[:12]}"
    with source_postgres.connect(source.dsn, application_name="headwater fill") as holder:
        created = create_slot(
            source.dsn, slot, temporary=True, timeout_s=timeout_s, on_wait=on_wait
        )
        with created as exported:
            _enter(holder, exported.snapshot_name)
            with source_errors.translated("exporting the snapshot"):
                row = holder.execute(_EXPORT).fetchone()
        assert row is not None, "they are functions"
        yield _Snapshot(exported.consistent_point, *row)


def _enter(conn: Connection, snapshot: str) -> None:
    """Begin a transaction that sees what the snapshot sees."""
    with source_errors.translated("entering the exported snapshot"):
        if conn.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
            conn.execute("set transaction_timeout = 0")
        conn.execute("begin isolation level repeatable read read only")
        conn.execute(f"set transaction snapshot {literal(snapshot)}".encode())


class _Table:
    """Fills one mirror. ``session`` sees the source as it is at present."""

    def __init__(
        self,
        state: Connection,
        source: Source,
        session: Connection,
        catalog: MirrorCatalog,
        on_rows: Callable[[str, int], None],
        filled: Callable[[Connection, Filled], None],
    ) -> None:
        self._state, self._source, self._session = state, source, session
        self._catalog, self._on_rows, self._filled = catalog, on_rows, filled

    def fill(self, oid: int, snapshot: _Snapshot) -> Filled:
        started, lsn = time.monotonic(), snapshot.lsn
        dsn = self._source.dsn
        with source_postgres.connect(dsn, application_name="headwater fill") as reader:
            _enter(reader, snapshot.name)
            shape, table = self._described(reader, oid)
            with translated(f"filling the mirror of {table.label}"), self._state.transaction():
                beside = copy_target(table)
                rows = self._copy(reader, shape, table, beside, lsn)
                try:
                    finish(self._state, table, beside)
                except errors.UniqueViolation as error:
                    raise _not_unique(table) from error
                mirror_id = save_filled(self._state, table, lsn, rows, snapshot.transactions)
                done = Filled(mirror_id, table, lsn, rows, time.monotonic() - started)
                self._filled(self._state, done)
            reader.execute("commit")
        return done

    def _described(self, reader: Connection, oid: int) -> tuple[Relation, MirrorTable]:
        """The table, locked: what it is in the snapshot is what it is now."""
        shape = self._catalog.shape(self._session, oid)
        refuse_excluded(self._source, shape)
        refuse_unrecorded(self._session, self._source, shape)
        only = "" if self._catalog.is_partitioned(self._session, oid) else "only "
        name = f"{identifier(shape.schema)}.{identifier(shape.table)}"
        with source_errors.translated(f"locking {shape.name} for the snapshot"):
            lock_against_ddl(reader, f"{only}{name}")
        then, now = table_files(reader, oid)
        if then != now or self._catalog.shape(reader, oid) != shape:
            raise _MovedError(f"{shape.name} was altered", "wait: its mirror is filled later")
        table = self._catalog.table(self._session, oid)
        if self._catalog.shape(self._session, oid) != shape or table.schema_id != shape.schema_id():
            raise _MovedError(f"{shape.name} was altered", "wait: its mirror is filled later")
        return shape, table

    def _copy(
        self, reader: Connection, shape: Relation, table: MirrorTable, beside: str, lsn: int
    ) -> int:
        """Fill the table ``beside``, which is made here; how many rows it has."""
        self._state.execute(create_sql(table, beside).encode())
        positions = f"alter {LSN} set default {lsn}, alter {ORDINAL} set default 0"
        self._state.execute(f"alter table {beside} {positions}".encode())
        kind = "p" if table.partitioned else "r"
        select = select_rows(reader, shape, kind, self._source.publication_name)
        treat = _texts(shape, table)
        form = "binary" if is_binary(table) and not treat else "text"
        names = ", ".join(column.quoted for column in table.stored)
        rows = 0
        doing = f"reading {shape.name}"
        with self._state.cursor() as cursor:
            # Nobody else sees the table yet: its rows are written as they will be for good.
            into = f"copy {beside} ({names}) from stdin with (format {form}, freeze)"
            with cursor.copy(into.encode()) as copy:
                statement = f"COPY ({select}) TO STDOUT (FORMAT {form})"
                blocks = copy_out(reader, statement, doing, _BLOCK_ROWS, _BLOCK_BYTES)
                for block, count in blocks:
                    copy.write(treated_lines(block, treat) if treat else block)
                    rows += count
                    self._on_rows(table.label, rows)
            rows = cursor.rowcount
        positions = f"alter {LSN} drop default, alter {ORDINAL} drop default"
        self._state.execute(f"alter table {beside} {positions}".encode())
        return rows


def _texts(shape: Relation, table: MirrorTable) -> dict[int, Callable[[bytes], bytes]]:
    """By its place, what makes the text that the mirror has of one that the source gives."""
    found = {}
    for at, (column, held) in enumerate(zip(shape.columns, table.stored, strict=True)):
        if column.treatment:
            found[at] = column.treatment.function()
        elif make := held.filled_text:
            found[at] = make
    return found


def is_binary(table: MirrorTable) -> bool:
    """Whether both servers have one binary form of all columns: common built-in types, and enums,
    which are sent by their labels. Forms of others hold numbers of the source's catalog, or are not
    read by PostgreSQL as it writes them (an empty tsquery)."""
    return not any(column.is_text or not _is_binary(column.type) for column in table.stored)


def _is_binary(type: TypeInfo) -> bool:
    if type.kind == "enum":
        return True
    if type.element is not None:
        return type.kind == "array" and type.element.kind == "base" and _is_binary(type.element)
    return type.kind in ("base", "domain") and type.base in _BINARY


def _not_unique(table: MirrorTable) -> SourceError:
    return SourceError(
        f"{table.label}: two rows have the same key ({', '.join(table.key)})",
        "set columns in source.keys that are unique; a timetz is in UTC: one that differs in its "
        "zone alone is the same key",
    )
