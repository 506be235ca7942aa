"""CREATE TABLE statements, as the log describes such tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlglot
from sqlglot import exp

from views.table_versions import TableColumn, TableVersion
from views.types import PgType, array_of, numeric

_Kind = exp.DataType.Type
_TYPES = {
    _Kind.SMALLINT: "int2",
    _Kind.INT: "int4",
    _Kind.BIGINT: "int8",
    _Kind.FLOAT: "float4",
    _Kind.DOUBLE: "float8",
    _Kind.BOOLEAN: "bool",
    _Kind.TEXT: "text",
    _Kind.CHAR: "bpchar",
    _Kind.DATE: "date",
    _Kind.TIME: "time",
    _Kind.TIMESTAMPTZ: "timestamptz",
    _Kind.JSONB: "jsonb",
}


def declared_tables(sql: str) -> dict[str, TableVersion]:
    """The tables that ``sql`` creates, by ``schema.table``."""
    statements = [found for found in sqlglot.parse(sql, read="postgres") if found is not None]
    return {table.name: table for table in map(_table, statements, range(len(statements)))}


def _table(statement: Any, number: int) -> TableVersion:
    columns, key = [], []
    for part in statement.this.expressions:
        if isinstance(part, exp.PrimaryKey):
            key = [column.name for column in part.expressions]
        else:
            columns.append(TableColumn(part.name, _type(part.kind), not _is_there(part)))
            key += [part.name] if exp.PrimaryKeyColumnConstraint in _constraints(part) else []
    name = statement.this.this
    return TableVersion(
        f"{number:016x}", name.db or "public", name.name, tuple(columns), tuple(key)
    )


def _constraints(column: Any) -> Iterator[type[Any]]:
    return (type(constraint.kind) for constraint in column.constraints)


def _is_there(column: Any) -> bool:
    known = {exp.NotNullColumnConstraint, exp.PrimaryKeyColumnConstraint}
    return bool(known & set(_constraints(column)))


def _type(kind: Any) -> PgType:
    if kind.this == _Kind.ARRAY:
        return array_of(_type(kind.expressions[0]))
    if kind.this == _Kind.DECIMAL:
        precision, scale = (int(size.name) for size in kind.expressions)
        return numeric(precision, scale)
    return PgType(_TYPES[kind.this])
