"""Indexes of mirrors: what key queries and recomputations of views look up.

One index serves all views that want it. A B-tree refuses values of more than a third of a page, and
with them the batch that brings one; so text without a limit has hash indexes, of one column each,
which take any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import psycopg

from jobs.state.connection import Connection, translated
from jobs.state.kept_view import Relation, quoted
from views.maintain import Index

_UNBOUNDED: Final = ("text", "character varying", "bytea", "jsonb")
_NO_OPERATORS: Final = "42704"
"""SQLSTATE of a type that nothing orders."""


def make_indexes(conn: Connection, indexes: Sequence[Index], relation: Relation) -> None:
    """Make those that are not there yet; in the caller's transaction or one of its own."""
    for index in indexes:
        mirror = relation(index.table)
        for method, expressions in _methods(conn, index, mirror):
            name = _name(index.table, method, expressions)
            statement = (
                f"create index if not exists {quoted(name)} on {mirror} using {method} "
                f"({', '.join(expressions)})"
            )
            with translated(f"indexing the mirror of {index.table}"):
                try:
                    with conn.transaction():
                        conn.execute(statement.encode())
                except psycopg.Error as error:
                    if error.sqlstate != _NO_OPERATORS:  # else it is read whole
                        raise


def _methods(conn: Connection, index: Index, mirror: str) -> list[tuple[str, tuple[str, ...]]]:
    """How an index is made: its method, and what it is of."""
    if index.expression:
        return [("hash", (f"({index.expression})",))]
    query = (
        b"select attname, pg_catalog.format_type(atttypid, null) from pg_catalog.pg_attribute "
        b"where attrelid = %s::regclass and attname = any(%s)"
    )
    types = dict(conn.execute(query, (mirror, list(index.columns))).fetchall())
    bounded = tuple(quoted(one) for one in index.columns if types[one] not in _UNBOUNDED)
    others = [quoted(one) for one in index.columns if types[one] in _UNBOUNDED]
    if bounded:
        return [("btree", bounded)]
    return [("hash", (others[0],))]


def _name(table: str, method: str, expressions: Sequence[str]) -> str:
    told = "\n".join([table, method, *expressions])
    return f"ix_{hashlib.sha256(told.encode()).hexdigest()[:24]}"
