"""The columns of a view, as PostgreSQL describes the result of its SELECT.

Types are what ``views.types`` makes of the catalog's, so that a store is prepared with
the columns that the same values have always had. A result has no limits where PostgreSQL computes a
numeric; and what is in a JSON value nobody knows but the view. Both may be told by whoever knows:
``known``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql.types import StructType

from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import Connection
from jobs.spark.column_types import columns_named
from views.types import PgType, from_typmod

_JSON = ("json", "jsonb")


class ViewColumn(NamedTuple):
    """``type`` and ``typmod`` are PostgreSQL's, of the values; ``kind`` is what stores are told."""

    name: str
    type: TypeInfo
    typmod: int
    kind: PgType


def described(
    conn: Connection,
    select: str,
    types: Mapping[int, TypeInfo],
    known: Mapping[str, PgType] | None = None,
) -> tuple[ViewColumn, ...]:
    """The columns of a SELECT, which is planned and not run.

    ``types`` are those of the database (``cdc.source.types.load_types``). ``known`` tells the
    objects in a column of JSON, and the limits of a numeric, which its values are rounded to.
    """
    cursor = conn.execute(f"select * from ({select}) described limit 0".encode(), prepare=False)
    result = cursor.pgresult
    assert result is not None, "a SELECT has a result"
    names = [column.name for column in cursor.description or ()]
    fields = [(name, types[result.ftype(i)], result.fmod(i)) for i, name in enumerate(names)]
    return columns_of(fields, known or {})


def columns_of(
    fields: Sequence[tuple[str, TypeInfo, int]], known: Mapping[str, PgType]
) -> tuple[ViewColumn, ...]:
    """The columns of described fields: name, type and typmod of each."""
    found = []
    for name, type_, typmod in fields:
        held = type_.typmod if type_.typmod != -1 else typmod
        found.append(ViewColumn(name, type_, held, _kind(type_, held, known.get(name))))
    return tuple(found)


def _kind(type_: TypeInfo, typmod: int, known: PgType | None) -> PgType:
    kind = from_typmod(type_.base, typmod, type_.element.base if type_.element else None)
    if known is None or known == kind:
        return kind
    if known.name in ("struct", "array") and kind.name in _JSON:
        return known
    if known.element == "struct" and kind.element in _JSON:
        return known
    limited = known.exact and kind.name == "numeric"
    return known if limited or (known.item.exact and kind.element == "numeric") else kind


def spark_columns(columns: Sequence[ViewColumn]) -> StructType:
    """What stores are prepared with."""
    return columns_named([(column.name, column.kind) for column in columns])
