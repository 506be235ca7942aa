"""What a view's columns may become: the rule every store holds ``prepare`` to. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from cdc.errors import ViewError
from views.stored import unfit

POSTGRES_TYPE = "postgres"
"""In a column's metadata: its type in PostgreSQL, where Spark holds the values as text."""
REBUILD = "rebuild the view, or give the changed column another name in its SQL"


_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_FLOATS = (FloatType, DoubleType)


def quoted(name: str) -> str:
    """A column's name as Spark SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def never(held: DataType, wanted: DataType) -> bool:  # noqa: ARG001
    """Of a store that changes no column's type in place."""
    return False


def widens(held: DataType, wanted: DataType) -> bool:
    """Whether Delta can let a column have a wider type, its files as they are: each value stays
    what it is."""
    if isinstance(held, DecimalType) and isinstance(wanted, DecimalType):
        more = wanted.scale - held.scale
        return more >= 0 and wanted.precision - held.precision >= more
    for kinds in (_INTEGERS, _FLOATS):
        if type(held) in kinds and type(wanted) in kinds:
            return kinds.index(type(held)) <= kinds.index(type(wanted))
    return False


def widens_as_text(held: DataType, wanted: DataType) -> bool:
    """Whether a store of JSON can let a column have a wider type, its rows as they are: each value
    has the same text. A double writes more digits of what was a four-byte float, and another scale
    other zeros, so that rows from before would differ from the source's."""
    if isinstance(held, FloatType):
        return False
    if isinstance(held, DecimalType) and isinstance(wanted, DecimalType):
        return held.scale == wanted.scale and held.precision <= wanted.precision
    return widens(held, wanted)


def evolved(
    view: str,
    stored: StructType,
    wanted: StructType,
    can: Callable[[DataType, DataType], bool] = never,
) -> StructType:
    """``stored`` with the columns of ``wanted`` it lacks, all nullable, and the types that it
    ``can`` give to others.

    A column the view no longer has stays in the store. Raises ``ViewError``, with both schemas,
    when a column changed its type otherwise.
    """
    held = {field.name: field for field in stored}
    other = [
        field
        for field in wanted
        if field.name in held and not _same(held[field.name].dataType, field.dataType)
    ]
    wider = {f.name: f for f in other if can(held[f.name].dataType, f.dataType)}
    changed = [
        f"{field.name} {described(held[field.name].dataType)}, now {described(field.dataType)}"
        for field in other
        if field.name not in wider
    ]
    if changed:
        raise ViewError(
            f"view {view}: the store holds {'; '.join(changed)}"
            f" (stored: {summary(stored)}; view: {summary(wanted)})",
            REBUILD,
        )
    added = [field for field in wanted if field.name not in held]
    return StructType(
        [
            *(wider.get(f.name, f) for f in stored),
            *(StructField(f.name, f.dataType, True, f.metadata) for f in added),
        ]
    )


def check_key(view: str, stored: Iterable[str], wanted: Iterable[str]) -> None:
    """Raise ``ViewError`` when the rows in the store are identified by another key."""
    held, asked = ", ".join(stored), ", ".join(wanted)
    if held != asked:
        raise ViewError(
            f"view {view}: the store's key is ({held}), the view's is ({asked})", REBUILD
        )


def check_names(view: str, kind: str, columns: StructType) -> None:
    """Raise ``ViewError`` when a store of that kind has no such names for columns."""
    if found := unfit(kind, paths(columns)):
        raise ViewError(f"view {view}: {found.reason}", found.hint)


def paths(columns: StructType, within: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The columns, and behind each the fields of its objects: ``views.stored.paths_of``."""
    for field in columns:
        path, kind = (*within, field.name), field.dataType
        yield path
        while isinstance(kind, ArrayType):
            kind = kind.elementType
        if isinstance(kind, StructType):
            yield from paths(kind, path)


def summary(columns: StructType) -> str:
    """``id bigint, name string``."""
    return ", ".join(f"{field.name} {described(field.dataType)}" for field in columns)


def described(kind: DataType) -> str:
    return kind.simpleString()


def columns_json(columns: StructType) -> str:
    """Columns as a store keeps them beside its rows."""
    return columns.json()


def columns_from_json(text: str) -> StructType:
    return StructType.fromJson(json.loads(text))


def _same(left: DataType, right: DataType) -> bool:
    """Equal but for nullability, which no store here enforces."""
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        return _same(left.elementType, right.elementType)
    if isinstance(left, MapType) and isinstance(right, MapType):
        return _same(left.keyType, right.keyType) and _same(left.valueType, right.valueType)
    if isinstance(left, StructType) and isinstance(right, StructType):
        return left.names == right.names and all(
            _same(a.dataType, b.dataType) for a, b in zip(left, right, strict=True)
        )
    return left == right
