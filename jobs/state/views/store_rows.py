"""Rows of a view in the form that its store writes, out of what the state database gives.

A form is asked for its expressions, which stand in whatever SELECT makes the rows, and then makes
``jobs.sinks.rows.Rows`` of what that gave. ``row`` has the view's columns, all NULL where the row
of a key is gone; ``key`` has the key's columns also there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cdc.config import Store, View
from cdc.lsn import Position
from jobs.sinks.documents import Document
from jobs.sinks.postgres.copy_lines import GONE, LIVE, CopyRow
from jobs.sinks.postgres.quoting import ident
from jobs.sinks.redis.layout import Shape, shape_of
from jobs.sinks.row_errors import Refused
from jobs.sinks.rows import Rows, unfit_cause
from jobs.state.values.arrow_values import arrow_table, arrow_text
from jobs.state.values.document_sql import DocumentSql
from jobs.state.values.line_sql import line_value
from jobs.state.views.view_columns import ViewColumn

Fetched = Sequence[Any]
"""A row of results: the values of ``expressions``, all texts or None."""
_NOTHING: Final = "null::text"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class RowForm(Protocol):
    """How a store's rows are made."""

    def expressions(self, row: str, key: str) -> tuple[str, ...]:
        """SQL of the values that ``rows`` needs of each row, each of type text; the first one is
        the key, as the store's errors have it."""

    def rows(self, fetched: Iterable[Fetched], position: Position) -> Rows:
        """The rows at a position."""


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """Documents, for Redis and OpenSearch."""

    sql: DocumentSql

    def expressions(self, row: str, key: str) -> tuple[str, ...]:
        """The key, the column that does not fit, the body, and the name."""
        body = f"case when {_is_there(self.sql, row)} then {self.sql.body(row)} end"
        name, unfit = self.sql.name(key), self.sql.unfit(row)
        return self.sql.id(key), unfit or _NOTHING, body, name or _NOTHING

    def rows(self, fetched: Iterable[Fetched], position: Position) -> Rows:
        written, unfit = [], []
        for id_, column, body, name in fetched:
            if column is None:
                written.append(Document(id_, body, position, (), id_ if name is None else name))
            else:
                unfit.append(_refused(self.sql, id_, position, column))
        return Rows(written, tuple(unfit))


@dataclass(frozen=True, slots=True)
class LineForm:
    """Lines of COPY, for PostgreSQL."""

    sql: DocumentSql

    def expressions(self, row: str, key: str) -> tuple[str, ...]:
        """The key, the column that does not fit, whether the row is deleted, and all values."""
        gone = f"case when {_is_there(self.sql, row)} then null else 'gone' end"
        values = (line_value(c, key if c.name in self.sql.key else row) for c in self.sql.columns)
        return self.sql.id(key), self.sql.unfit(row) or _NOTHING, gone, *values

    def rows(self, fetched: Iterable[Fetched], position: Position) -> Rows:
        written, unfit = [], []
        for id_, column, gone, *values in fetched:
            if column is not None:
                unfit.append(_refused(self.sql, id_, position, column))
                continue
            line = "\t".join(r"\N" if v is None else v.translate(_ESCAPED) for v in values)
            line += f"\t{position.commit_lsn}\t{position.ordinal}{GONE if gone else LIVE}"
            written.append(CopyRow(id_, line, position))
        return Rows(written, tuple(unfit))


@dataclass(frozen=True, slots=True)
class ArrowForm:
    """An Arrow table as Spark would have it, for Delta."""

    sql: DocumentSql

    def expressions(self, row: str, key: str) -> tuple[str, ...]:
        """The key, the column that does not fit, whether the row is deleted, and all values."""
        gone = f"case when {_is_there(self.sql, row)} then 'false' else 'true' end"
        values = (arrow_text(c, key if c.name in self.sql.key else row) for c in self.sql.columns)
        return self.sql.id(key), self.sql.unfit(row) or _NOTHING, gone, *values

    def rows(self, fetched: Iterable[Fetched], position: Position) -> Rows:
        found = list(fetched)
        columns = zip(*found, strict=True) if found else [()] * (3 + len(self.sql.columns))
        return self.of_columns([pa.array(column, pa.string()) for column in columns], position)

    def of_columns(self, fetched: Sequence[pa.Array | pa.ChunkedArray], position: Position) -> Rows:
        """The same of the columns of what was fetched."""
        ids, unfits = fetched[:2]
        unfit: list[Refused] = []
        if unfits.null_count < len(unfits):
            wrong = pc.is_valid(unfits)
            named = (column.filter(wrong).to_pylist() for column in (ids, unfits))
            unfit = [
                _refused(self.sql, id_, position, column)
                for id_, column in zip(*named, strict=True)
            ]
            fetched = [column.filter(pc.invert(wrong)) for column in fetched]
        _, _, gone, *texts = fetched
        table = arrow_table(self.sql.columns, texts, gone.cast(pa.bool_()), position)
        return Rows(table, tuple(unfit))


def _is_there(sql: DocumentSql, row: str) -> str:
    return f"{row}.{ident(sql.key[0])} is not null"


def _refused(sql: DocumentSql, id_: str | None, position: Position, column: str) -> Refused:
    (kind,) = (one.kind for one in sql.columns if one.name == column)
    return Refused(id_, position, unfit_cause(column, kind.spark))


def form_of_store(
    config: Store, columns: Sequence[ViewColumn], key: Sequence[str], declared: View | None
) -> RowForm:
    """The form of a view's rows in a store."""
    shape = shape_of(declared) if config.kind == "redis" else Shape()
    sql = DocumentSql(tuple(columns), tuple(key), shape)
    if config.kind == "postgres":
        return LineForm(sql)
    return ArrowForm(sql) if config.kind == "delta" else DocumentForm(sql)
