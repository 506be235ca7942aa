"""Rows of a view in the form that its store writes, out of what the state database gives.

A form is asked for its expressions, which stand in whatever SELECT makes the rows, and then makes
``jobs.sinks.rows.Rows`` of what that gave. ``row`` has the view's columns, all NULL where the row
of a key is gone; ``key`` has the key's columns also there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cdc.config import Store, View
from cdc.lsn import Position
from jobs.sinks.documents import Document
from jobs.sinks.refusing import Refused
from jobs.sinks.rows import Rows, unfit_cause
from jobs.sinks.shapes import Shape, shape_of
from jobs.sinks.table import ident
from jobs.state.document_sql import DocumentSql
from jobs.state.view_columns import ViewColumn

Fetched = Sequence[Any]
"""A row of results: the values of ``expressions``, all texts or None."""


class RowForm(Protocol):
    """How a store's rows are made."""

    def expressions(self, row: str, key: str) -> tuple[str, ...]:
        """SQL of the values that ``rows`` needs of each row, each of type text."""

    def rows(self, fetched: Iterable[Fetched], position: Position) -> Rows:
        """The rows at a position."""


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """Documents, for Redis and OpenSearch."""

    sql: DocumentSql

    def expressions(self, row: str, key: str) -> tuple[str, ...]:
        """The key, the body, the name and the column that does not fit."""
        there = f"{row}.{ident(self.sql.key[0])} is not null"
        body = f"case when {there} then {self.sql.body(row)} end"
        name, unfit = self.sql.name(key), self.sql.unfit(row)
        return self.sql.id(key), body, name or "null::text", unfit or "null::text"

    def rows(self, fetched: Iterable[Fetched], position: Position) -> Rows:
        written, unfit = [], []
        for id_, body, name, column in fetched:
            if column is None:
                written.append(Document(id_, body, position, (), id_ if name is None else name))
            else:
                unfit.append(Refused(id_, position, cause_of(self.sql.columns, column)))
        return Rows(written, tuple(unfit))


def cause_of(columns: Sequence[ViewColumn], name: str) -> str:
    """Why a row with such a value is not written."""
    (kind,) = (column.kind for column in columns if column.name == name)
    return unfit_cause(name, kind.spark)


def form_of_store(
    config: Store, columns: Sequence[ViewColumn], key: Sequence[str], declared: View | None
) -> RowForm:
    """The form of a view's rows in a store."""
    shape = shape_of(declared) if config.kind == "redis" else Shape()
    return DocumentForm(DocumentSql(tuple(columns), tuple(key), shape))
