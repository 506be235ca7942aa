"""What a view's columns may become: the rule every store holds ``prepare`` to. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

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
    StringType,
    StructField,
    StructType,
)

from cdc.errors import ViewError
from views.parse.store_names import unfit

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


class Change(NamedTuple):
    """Another type, of a column or of what is in it: ``path`` names it, the elements of an array
    ``element``."""

    path: tuple[str, ...]
    held: DataType
    wanted: DataType

    def __str__(self) -> str:
        what = ".".join(self.path)
        return f"{what} {described(self.held)}, now {described(self.wanted)}"


def changes(held: DataType, wanted: DataType, path: tuple[str, ...]) -> Iterator[Change]:
    """Where two types differ, but for nullability, which no store here enforces. Objects that have
    other fields differ as a whole."""
    if isinstance(held, ArrayType) and isinstance(wanted, ArrayType):
        yield from changes(held.elementType, wanted.elementType, (*path, "element"))
    elif isinstance(held, MapType) and isinstance(wanted, MapType):
        yield from changes(held.keyType, wanted.keyType, (*path, "key"))
        yield from changes(held.valueType, wanted.valueType, (*path, "value"))
    elif isinstance(held, StructType) and isinstance(wanted, StructType):
        if held.names != wanted.names:
            yield Change(path, held, wanted)
        else:
            for one, other in zip(held, wanted, strict=True):
                yield from changes(one.dataType, other.dataType, (*path, one.name))
    elif held != wanted:
        yield Change(path, held, wanted)


def evolved(
    view: str,
    stored: StructType,
    wanted: StructType,
    can: Callable[[DataType, DataType], bool] = never,
) -> StructType:
    """``stored`` with the columns of ``wanted`` it lacks, all nullable, and the types that it
    ``can`` give to others, also to what is in their arrays and objects.

    A column the view no longer has stays in the store. Raises ``ViewError``, which names what
    differs, when a column changed its type otherwise.
    """
    held = {field.name: field for field in stored}
    wider: dict[str, StructField] = {}
    refused: list[str] = []
    for field in wanted:
        if field.name not in held:
            continue
        changed = list(changes(held[field.name].dataType, field.dataType, (field.name,)))
        refusing = [one for one in changed if not can(one.held, one.wanted)]
        refused += [_told(one, field) for one in refusing]
        if changed and not refusing:
            wider[field.name] = field
    if refused:
        raise ViewError(f"view {view}: the store holds {'; '.join(refused)}", REBUILD)
    added = [field for field in wanted if field.name not in held]
    return StructType(
        [
            *(wider.get(f.name, f) for f in stored),
            *(StructField(f.name, f.dataType, True, f.metadata) for f in added),
        ]
    )


def _told(change: Change, wanted: StructField) -> str:
    """With PostgreSQL's name of a type whose values Spark holds as text: the SQL has that one."""
    called = (wanted.metadata or {}).get(POSTGRES_TYPE)
    if called is None or not isinstance(change.wanted, StringType):
        return str(change)
    return f"{str(change).rpartition(', now ')[0]}, now {called}"


def evolved_documents(
    view: str, stored: StructType, wanted: StructType, key: tuple[str, ...], made_anew: bool
) -> StructType:
    """``evolved``, of a store of JSON. Values may get another text where all rows are made anew
    when a type has changed; columns of the key never: rows would have another name beside the one
    they have. A numeric that has no limits any more keeps its text."""
    stored = without_limits(stored, wanted)
    held = [name for name in key if name in stored.names]
    ends = [StructType([columns[name] for name in held]) for columns in (stored, wanted)]
    evolved(view, ends[0], ends[1], widens_as_text)
    return evolved(view, stored, wanted, widens if made_anew else widens_as_text)


def without_limits(stored: StructType, wanted: StructType) -> StructType:
    """``stored`` with the numerics that have no limits any more as they are ``wanted``."""
    return StructType(
        [
            wanted[f.name] if f.name in wanted.names and _lost_limits(f, wanted[f.name]) else f
            for f in stored
        ]
    )


def _lost_limits(held: StructField, wanted: StructField) -> bool:
    was, now = held.dataType, wanted.dataType
    while isinstance(was, ArrayType) and isinstance(now, ArrayType):
        was, now = was.elementType, now.elementType
    numeric = wanted.metadata.get(POSTGRES_TYPE) == "numeric"
    return numeric and isinstance(was, DecimalType) and isinstance(now, StringType)


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
    """The columns, and behind each the fields of its objects:
    ``views.parse.store_names.paths_of``."""
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
