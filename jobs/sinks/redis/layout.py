"""How rows of a view lie in Redis: as declared when a generation was made. Pure.

document  a hash: ``doc`` is the row as JSON, ``pos`` its position
hash      a hash: a field for each column that is not null, ``__pos`` the position
json      a string: the row as JSON, ``__position`` first; the position of a deleted row is a
          key of its own, ``__gone:{<row>}``
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.config import View
from cdc.errors import ViewError
from jobs.sinks.documents import Stored, key_text, parse_position
from jobs.sinks.key_names import key_name

PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_ORDERED: Final = (NumericType, DateType, TimestampType, TimestampNTZType)
_TEXT: Final = (
    StringType, BinaryType, DateType, TimestampType, TimestampNTZType, DecimalType, FloatType,
    DoubleType,
)  # fmt: skip
"""Types of which a field is the text itself; a float is read from any."""
_POSITION: Final = '{"__position":"'
Entries = dict[str, float | None]
"""Secondary sets that a row is in, with its score where the set is sorted."""


class Shape(NamedTuple):
    """What a view's declaration says of its rows."""

    format: str = "document"
    template: str = ""
    ttl_s: int = 0
    index_by: tuple[str, ...] = ()

    def text(self) -> bytes:
        """As a generation remembers it."""
        return orjson.dumps(self._asdict())


def shape_of(declared: View | None) -> Shape:
    """The declared one, or what is so without a word."""
    if declared is None:
        return Shape()
    return Shape(declared.format, declared.key_template, declared.ttl_s, declared.index_by)


def remembered(text: bytes | None) -> Shape:
    """What ``Shape.text`` wrote; nothing was written before there were others."""
    held = orjson.loads(text) if text else {}
    return Shape(**{**held, "index_by": tuple(held.get("index_by", ()))})


def check(view: str, shape: Shape, columns: StructType) -> None:
    """Raise ``ViewError`` for an index over what the view does not have, or cannot be found by."""
    for name in shape.index_by:
        if name not in columns.names:
            raise ViewError(
                f"view {view}: index_by names {name}",
                f"choose from the view's columns: {', '.join(columns.names)}",
            )
        if not isinstance(columns[name].dataType, (StringType, BooleanType, *_ORDERED)):
            raise ViewError(
                f"view {view}: index_by: {name} is {columns[name].dataType.simpleString()}",
                "choose a column of text, numbers, times or booleans",
            )


def name_of(shape: Shape, columns: StructType, key: tuple[str, ...]) -> Column:
    """What a row's key in Redis has behind the generation's prefix."""
    codes = escapes(shape)
    if not shape.template:
        return _encoded(key_text(columns, key), codes)
    pieces = PLACEHOLDER.split(shape.template)
    parts = [
        _encoded(key_text(columns, (piece,)), codes) if number % 2 else F.lit(piece)
        for number, piece in enumerate(pieces)
    ]
    return F.concat(*parts)


def plain_name(shape: Shape, key: tuple[str, ...], values: Sequence[object]) -> str:
    """The same of a plain key (``jobs.sinks.key_names``)."""
    codes, of = escapes(shape), dict(zip(key, values, strict=True))

    def encoded(text: str) -> str:
        for one, code in codes:
            text = text.replace(one, code)
        return text

    if not shape.template:
        return encoded(key_name(values))
    pieces = PLACEHOLDER.split(shape.template)
    return "".join(
        encoded(key_name([of[piece]])) if number % 2 else piece
        for number, piece in enumerate(pieces)
    )


def escapes(shape: Shape) -> list[tuple[str, str]]:
    """Characters of a key that would be taken for the template's, each with its %XX; in this
    order."""
    special = "{}" if shape.format == "json" else ""
    if shape.template:
        pieces = PLACEHOLDER.split(shape.template)
        special += "".join(pieces[2:-1:2])  # what stands around all of them parts nothing
    if not special:
        return []
    characters = "%" + "".join(sorted(set(special) - {"%"}))
    return [(one, "".join(f"%{byte:02X}" for byte in one.encode())) for one in characters]


def _encoded(text: Column, codes: Sequence[tuple[str, str]]) -> Column:
    for one, code in codes:
        text = F.replace(text, F.lit(one), F.lit(code))
    return text


def gone_key(row: str) -> str:
    """Where the position of a deleted JSON string is: in the row's own hash slot."""
    return f"__gone:{{{row}}}"


def body_text(shape: Shape, body: str | None, position: str) -> str:
    """The row as the script writes it; empty for a deleted one. ``position`` is in digits."""
    if body is None:
        return ""
    if shape.format == "document":
        return body
    if shape.format == "json":
        return f'{_POSITION}{position}"{"," if len(body) > 2 else ""}{body[1:]}'
    flat: list[str] = []
    for name, value in orjson.loads(body).items():
        if value is not None:
            flat += (name, _field(value))
    return orjson.dumps(flat).decode()


def _field(value: Any) -> str:
    """A value of a hash's field: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def stored_of(shape: Shape, columns: StructType) -> Callable[[Any], Stored | None]:
    """A function from what ``asked`` brings of a row to what is held of it."""
    texts = {f.name for f in columns if isinstance(f.dataType, _TEXT)}

    def of_document(answer: Sequence[bytes | None]) -> Stored | None:
        position, document = answer
        if position is None:
            return None
        return Stored(
            parse_position(position.decode()), orjson.loads(document) if document else None
        )

    def of_hash(answer: dict[bytes, bytes]) -> Stored | None:
        position = answer.pop(b"__pos", None)
        if position is None:
            return None
        body = {
            name: value.decode() if name in texts else orjson.loads(value)
            for key, value in answer.items()
            if not (name := key.decode()).startswith("__")
        }
        return Stored(parse_position(position.decode()), body or None)

    def of_json(answer: bytes | None) -> Stored | None:
        if answer is None:
            return None
        body = orjson.loads(answer)
        return Stored(parse_position(body.pop("__position")), body)

    if shape.format == "document":
        return of_document
    return of_hash if shape.format == "hash" else of_json


def asked(shape: Shape, row: str | bytes) -> tuple[Any, ...]:
    """The command that reads a row."""
    if shape.format == "document":
        return ("HMGET", row, "pos", "doc")
    return ("HGETALL", row) if shape.format == "hash" else ("GET", row)


def entries(shape: Shape, columns: StructType, prefix: str, body: str | None) -> Entries:
    """The secondary sets of a row: ``z`` before the name of a sorted one, ``s`` before others."""
    found: Entries = {}
    if not shape.index_by or body is None:
        return found
    row = orjson.loads(body)
    for name in shape.index_by:
        value = row.get(name)
        if value is None:
            continue
        if not isinstance(columns[name].dataType, _ORDERED):
            found[f"s{prefix}#{name}:{_field(value)}"] = None
        elif not math.isnan(score := _score(value)):
            found[f"z{prefix}#{name}"] = score
    return found


def _score(value: Any) -> float:
    """A number, or seconds since 1970."""
    if not isinstance(value, str):
        return float(value)
    try:
        return float(value)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(value)
    except ValueError:  # outside of Python's years
        return -math.inf if value.startswith("-") else math.inf
    return at.timestamp() if at.tzinfo else at.replace(tzinfo=UTC).timestamp()
