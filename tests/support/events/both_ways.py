"""Rows of a table on both ways to a store: through events and Spark, and from PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from cdc.events.values.encoder import encoder
from cdc.lsn import Position
from cdc.source.postgres import WIRE_OPTIONS, Connection
from cdc.source.types import load_types
from jobs.sinks.contract import DELETED
from jobs.sinks.redis.layout import Shape
from jobs.sinks.rows import Rows
from jobs.state.values.document_sql import DocumentSql
from jobs.state.views.store_rows import DocumentForm, RowForm
from jobs.state.views.view_columns import ViewColumn, described
from jobs.without_mirrors.projection import loaded_rows_of
from tests.support.events.events import event, kafka_frame
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve
from views.table_versions import TableVersion, parse_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LSN, ORDINAL = 0x16_B374_D848, 7


class Both:
    """A table ``t`` with key ``id`` in a database with these types."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn

    def table(self, declarations: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """Make it anew, of columns ``v0`` and on; values are texts that PostgreSQL reads."""
        columns = ", ".join(f"v{i} {kind}" for i, kind in enumerate(declarations))
        casts = ", ".join(f"cast(v{i} as {kind})" for i, kind in enumerate(declarations))
        names = ", ".join(f"v{i}" for i in range(len(declarations)))
        arrays = ", ".join(["%s::text[]"] * len(declarations))
        self.conn.execute("drop table if exists public.t")
        with self._ordinary():
            self.conn.execute(f"create table public.t (id int primary key, {columns})".encode())
            self.conn.execute(
                f"insert into public.t select i, {casts}"
                f" from unnest({arrays}) with ordinality u ({names}, i)".encode(),
                [list(column) for column in zip(*rows, strict=True)],
            )

    @contextmanager
    def _ordinary(self) -> Iterator[None]:
        self.conn.execute("set search_path to public")
        yield
        self.conn.execute("set search_path to pg_catalog")

    def columns(self, select: str) -> tuple[ViewColumn, ...]:
        with self._ordinary():
            return described(self.conn, select, load_types(self.conn))

    def query(self, select: str) -> list[tuple[Any, ...]]:
        with self._ordinary():
            return self.conn.execute(select.encode()).fetchall()

    def view(self, select: str, key: Sequence[str] = ("id",)) -> ResolvedView:
        return resolve(parse_view("v", "s", list(key), select), self.version())

    def form(
        self, select: str, key: Sequence[str] = ("id",), shape: Shape | None = None
    ) -> RowForm:
        """Documents of a view."""
        return DocumentForm(DocumentSql(self.columns(select), tuple(key), shape or Shape()))

    def made(self, form: RowForm, select: str) -> Rows:
        """The rows of a view, in a form."""
        expressions = ", ".join(form.expressions("m", "m"))
        found = self.query(f"select {expressions} from ({select}) m order by m.id")
        return form.rows(found, Position(LSN, ORDINAL))

    def rows(self, spark: SparkSession, view: ResolvedView) -> DataFrame:
        """What a sink is given of all rows."""
        steps = loaded_rows_of(view, {view.table.schema_id: view.table})
        rows = steps(kafka_frame(spark, self._events(view.table)))
        return rows.where(~rows[DELETED])

    def version(self, table: str = "t", key: Sequence[str] = ("id",)) -> TableVersion:
        """A table as the log describes it."""
        columns = [
            {
                "name": column.name,
                "base": column.type.base,
                "typmod": column.typmod,
                "element": column.type.element.base if column.type.element else None,
            }
            for column in self.columns(f"select * from public.{table}")
        ]
        told = {"schema_id": "a" * 16, "schema": "public", "table": table, "key": list(key)}
        return parse_version({**told, "columns": columns})

    def _events(self, version: TableVersion) -> Iterator[tuple[bytes | None, bytes | None]]:
        columns = self.columns(f"select * from {version.name}")
        encoders = [encoder(column.type, column.typmod) for column in columns]
        key = ", ".join(version.key)
        cursor = self.conn.execute(f"select * from {version.name} order by {key}".encode())
        result = cursor.pgresult
        assert result is not None
        for i in range(result.ntuples):
            texts = [result.get_value(i, j) for j in range(result.nfields)]
            parts = [
                b"null" if text is None else bytes(text) if encode is None else encode(bytes(text))
                for text, encode in zip(texts, encoders, strict=True)
            ]
            yield _record(version, columns, parts)


def _record(
    version: TableVersion, columns: Sequence[ViewColumn], parts: Sequence[bytes]
) -> tuple[bytes | None, bytes | None]:
    """An event as ``tests.support.events.events`` makes it, its row in the bytes that capture
    writes."""
    pairs = [json.dumps(c.name).encode() + b":" + p for c, p in zip(columns, parts, strict=True)]
    row = b"{" + b",".join(pairs) + b"}"
    _, value = event(LSN, ORDINAL, {"id": "<row>"}, "c", schema_id=version.schema_id)
    assert value is not None
    return b'{"id":%b}' % parts[0], value.replace(b'{"id":"<row>"}', row)


@contextmanager
def both_ways(dsn: str, types: str) -> Iterator[Both]:
    """In the database, with types of one's own."""
    target = psycopg.conninfo.make_conninfo(dsn, options=WIRE_OPTIONS)
    with psycopg.connect(target, autocommit=True, prepare_threshold=None) as conn:
        both = Both(conn)
        with both._ordinary():
            conn.execute(sql.SQL(types))
        yield both
