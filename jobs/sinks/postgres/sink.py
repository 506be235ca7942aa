"""Views in PostgreSQL: a table per generation, and a view over the live one.

``<schema>."<view>@<n>"`` has the view's columns in PostgreSQL's own types, ``__commit_lsn`` and
``__ordinal``, the position its row results from, and ``__deleted_at``
(``jobs.sinks.postgres.table``). People read ``<schema>."<view>"``, which shows the live rows of one
of them. Both keep in their comments what they belong to.

A batch is one transaction: COPY into a temporary table of the session, then one INSERT ... ON
CONFLICT that writes what is newer. Rows that keep unchanged values are an UPDATE of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Postgres
from cdc.errors import SinkError, ViewError
from cdc.lsn import Position
from jobs.sinks.batch_writer import with_keys, write_rows
from jobs.sinks.contract import Batch, ViewRow
from jobs.sinks.key_names import Keys, among, are_plain
from jobs.sinks.postgres.client import Action, Connection, Database, refusing_rows
from jobs.sinks.postgres.copy_lines import CopyRow, CopyRows, copy_list, copy_rows, is_nested
from jobs.sinks.postgres.errors import of_row
from jobs.sinks.postgres.relations import (
    Held,
    held,
    live_generation,
    make,
    make_schema,
    run,
    show,
    widen,
)
from jobs.sinks.postgres.scan_values import decoder
from jobs.sinks.postgres.table import (
    ViewTable,
    columns_of,
    described,
    document_of,
    table_name,
)
from jobs.sinks.row_errors import (
    TOLD,
    Refused,
    RowsError,
    raise_together,
    refused_rows,
    unknown_values,
)
from jobs.sinks.rows import Rows, write
from jobs.sinks.schema_evolution import (
    POSTGRES_TYPE,
    REBUILD,
    check_key,
    check_names,
    evolved,
    widens,
    without_limits,
)

PURGE_BATCHES: Final = 1_000
"""Old tombstones are removed once in so many batches."""
MOST_REFUSED: Final = TOLD
"""More rows than that are not looked for one by one: it is not about rows then."""
_REFUSED: Final = "PostgreSQL refused it: "
_HINT: Final = "correct the rows in the source, or lift the constraint that refuses them"
_COPY_BYTES: Final = 1 << 20
_SCAN_ROWS: Final = 2_000
_T = TypeVar("_T")


class PostgresSink:
    """A ``jobs.sinks.contract.Sink`` over one database; ``generation`` None is what people read."""

    def __init__(
        self, config: Postgres, view: str, retry_s: float, generation: int | None = None
    ) -> None:
        self._schema, self._view, self._wanted = config.target_schema, view, generation
        self._database = Database(config.dsn, retry_s)
        self._table = ViewTable(self._schema, table_name(view, generation or 1), StructType(), ())
        self._rows: CopyRows | None = None
        self._batches = 0

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        self._table, created = self._call(lambda conn: self._prepared(conn, columns, key))
        self._rows = None
        return created

    def _prepared(
        self, conn: Connection, columns: StructType, key: tuple[str, ...]
    ) -> tuple[ViewTable, bool]:
        # Two that begin at once: the second one waits, and finds it made.
        place = f"{self._schema}.{self._view}"
        conn.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [place])
        make_schema(conn, self._schema)
        live = live_generation(conn, self._schema, self._view)
        number = self._wanted or live or 1
        name = table_name(self._view, number)
        found = held(conn, self._schema, name)
        if found is None:
            table = ViewTable(self._schema, name, columns, key)
            make(conn, table, self._view)
        else:
            table = self._extended(conn, found, columns, key, name)
        if live == number or (live is None and found is None):
            show(conn, table, self._view, number)
        return ViewTable(self._schema, name, _as_stored(table.columns, columns), key), found is None

    def _extended(
        self, conn: Connection, found: Held, columns: StructType, key: tuple[str, ...], name: str
    ) -> ViewTable:
        """The table as it is stored, with the columns it lacked."""
        if found.document.get("headwater_view") != self._view:
            raise ViewError(
                f"view {self._view}: PostgreSQL has a table {self._schema}.{name} that does not "
                "belong to this view",
                "rename the view, or give the store another target_schema",
            )
        check_key(self._view, found.document["key"], key)
        check_names(self._view, "postgres", columns)
        stored = columns_of(found.document)
        whole = evolved(self._view, without_limits(stored, columns), columns, widens)
        _refuse_changed(self._view, stored, columns)
        table = ViewTable(self._schema, name, whole, key)
        if whole == stored:
            return table
        wider = [new for new, old in zip(whole, stored, strict=False) if new is not old]
        if altered := table.widen(field for field in wider if not is_nested(field.dataType)):
            widen(conn, table, self._view, altered)
        added = table.add(whole.fields[len(stored.fields) :])
        document = document_of(self._view, whole, key)
        run(conn, [*added, described("table", self._schema, name, document)])
        return table

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        self._rows = self._rows or copy_rows(self._table.columns, self._table.key)
        write_rows(self._rows(rows), batch.keys, copy_list, self._writer)
        self._after_batch()

    def write_rows(self, rows: Rows, batch: Batch) -> None:  # noqa: ARG002
        write(self._view, rows, self._writer)
        self._after_batch()

    @property
    def _writer(self) -> PostgresWriter:
        return PostgresWriter(self._database, self._view, self._table)

    def _after_batch(self) -> None:
        self._batches += 1
        if self._batches % PURGE_BATCHES == 1:
            self._call(lambda conn: run(conn, [self._table.purge()]))

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        self._call(lambda conn: run(conn, [self._table.truncate(before)]))

    def scan(self, keys: Keys | None = None) -> Iterator[ViewRow]:
        table = self._table
        if keys is not None and are_plain(table.columns, table.key):
            values = [[one[i] for one in keys] for i in range(len(table.key))]
            return self._found(table.scan(of_keys=True).encode(), values)
        return among(self._found(table.scan().encode(), None), keys)

    def _found(self, query: bytes, keys: list[list[object]] | None) -> Iterator[ViewRow]:
        table = self._table
        names, key = table.columns.names, [table.columns.names.index(name) for name in table.key]
        decoders = [(i, d) for i, f in enumerate(table.columns) if (d := decoder(f.dataType))]
        with self._database.reading() as conn, conn.cursor(name="headwater_scan") as cursor:
            cursor.itersize = _SCAN_ROWS
            cursor.execute(query, keys)
            for *row, lsn, ordinal in cursor:
                for i, decode in decoders:
                    if row[i] is not None:
                        row[i] = decode(row[i])
                values = dict(zip(names, row, strict=True))
                yield ViewRow(tuple(row[i] for i in key), Position(lsn, ordinal), values)

    def close(self) -> None:
        self._database.release(self._table.full_name)

    def _call(self, action: Action[_T]) -> _T:
        return self._database.call(self._table.full_name, action)


def _as_stored(stored: StructType, wanted: StructType) -> StructType:
    """The view's columns, each as the table has it."""
    return StructType([stored[field.name] for field in wanted])


def _refuse_changed(view: str, stored: StructType, wanted: StructType) -> None:
    """Types that are one to Spark, and two to PostgreSQL."""
    for field in wanted:
        if field.name not in stored.names:
            continue
        was = stored[field.name].metadata.get(POSTGRES_TYPE, "text")
        now = field.metadata.get(POSTGRES_TYPE, "text")
        if was not in (now, "text"):
            raise ViewError(
                f"view {view}: the store holds {field.name} as {was}, but its type is now {now}",
                REBUILD,
            )


@dataclass(frozen=True, slots=True)
class PostgresWriter:
    """Writes batches from any process: the session is taken where it is called."""

    database: Database
    view: str
    table: ViewTable

    def __call__(self, rows: list[CopyRow]) -> None:
        errors: list[RowsError] = []
        keyed = with_keys(self.view, rows, errors)
        done = _Done([], [])
        if keyed:
            done = self.database.call(self.table.full_name, partial(self._write, keyed))
        if done.refused:
            where = f"view {self.view}: {self.database.place}: table {self.table.full_name}"
            if len(done.refused) > MOST_REFUSED:
                raise SinkError(
                    f"{where} refused more than {MOST_REFUSED} rows, the first with"
                    f" {done.refused[0].cause.removeprefix(_REFUSED)}",
                    REBUILD,
                )
            errors.insert(0, refused_rows(where, done.refused, _HINT))
        if done.lacking:
            lacking = [(row.id, row.position) for row in done.lacking]
            errors.append(unknown_values(self.view, lacking, len(lacking)))
        raise_together(errors)

    def _write(self, rows: Sequence[CopyRow], conn: Connection) -> _Done:
        run(conn, [self.table.stage()])
        done = _Done([], [])
        self._try(rows, conn, done)
        return done

    def _try(self, rows: Sequence[CopyRow], conn: Connection, done: _Done) -> None:
        """Write rows, or those halves of them that can be; down to the single ones that cannot."""
        if not rows or len(done.refused) > MOST_REFUSED:
            return
        lacking: Sequence[CopyRow] = ()
        with refusing_rows(conn) as fault:
            lacking = self._merge(rows, conn)
        if fault.error is None:
            done.lacking.extend(lacking)
            return
        if len(rows) == 1:
            cause = f"{_REFUSED}{of_row(fault.error)}"
            done.refused.append(Refused(rows[0].id, rows[0].position, cause))
            return
        middle = len(rows) // 2
        self._try(rows[:middle], conn, done)
        self._try(rows[middle:], conn, done)

    def _merge(self, rows: Sequence[CopyRow], conn: Connection) -> Sequence[CopyRow]:
        """Write rows; gives back those that keep a value which is not there, not written."""
        copy_in(conn, self.table.copy(), rows)
        lacking: list[CopyRow] = []
        if any(not row.line.endswith("\\N") for row in rows):  # the last field: what is unchanged
            numbers = conn.execute(self.table.unknown().encode()).fetchall()
            if numbers:
                lacking = [rows[number] for number in sorted(number for (number,) in numbers)]
                gone = {row.line for row in lacking}
                run(conn, [self.table.unstage()])
                copy_in(conn, self.table.copy(), [row for row in rows if row.line not in gone])
            run(conn, [self.table.update()])
        run(conn, [self.table.merge(), self.table.unstage()])
        return lacking


class _Done(NamedTuple):
    """What of a batch was not written."""

    refused: list[Refused]
    lacking: list[CopyRow]
    """They keep values that nobody has."""


def copy_in(conn: Connection, statement: str, rows: Sequence[CopyRow]) -> None:
    """Send rows to a COPY."""
    with conn.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        part: list[str] = []
        size = 0
        for row in rows:
            part.append(row.line)
            size += len(row.line)
            if size > _COPY_BYTES:
                copy.write("\n".join([*part, ""]).encode())
                part, size = [], 0
        if part:
            copy.write("\n".join([*part, ""]).encode())
