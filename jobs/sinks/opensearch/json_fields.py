"""Columns of jsonb that an index has as objects, because the view's mapping says so. Pure.

Elsewhere, and by default here, JSON is a text. As an object it can be searched by its fields, and
the index takes of it what OpenSearch does: a field has the type of its first value for good, and an
index has a limited number of them. A row that does not fit is refused, as any other.

What is written is the text that PostgreSQL has, and what is read comes back as that text: numbers
keep their digits, names their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from pyspark.sql.types import StringType, StructType

from cdc.errors import ViewError
from jobs.sinks.documents import Document
from jobs.sinks.row_errors import Refused
from jobs.sinks.schema_evolution import POSTGRES_TYPE

DYNAMIC: Final = ("object", "nested")
"""Types that get a field for each name that a value has."""
_OBJECTS: Final = (*DYNAMIC, "flat_object")
_LONGEST_INT: Final = 4_000
"""Digits that any reader takes for an integer of 64 bits."""


class Number(float):
    """As JSON writes it."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        """Keep the text beside the value."""
        made = super().__new__(cls, text)
        made.text = text
        return made


def json_fields(
    view: str, columns: StructType, mapping: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """The columns that are objects. Raises ``ViewError`` for one that is no jsonb."""
    found = []
    for column in columns:
        kind = mapping.get(column.name, {}).get("type")
        if kind not in _OBJECTS or not isinstance(column.dataType, StringType):
            continue
        if column.metadata.get(POSTGRES_TYPE) != "jsonb":
            raise ViewError(
                f"view {view}: mapping of {column.name}: a field of type {kind} is made of jsonb",
                f"cast it in the view's SQL: {column.name}::jsonb",
            )
        found.append(column.name)
    return tuple(found)


def refuse_objects(view: str, names: Sequence[str]) -> None:
    """Raise ``ViewError`` where Spark computes a view: it takes values that an update left out from
    the store, which has them with other digits."""
    if names:
        raise ViewError(
            f"view {view}: its mapping makes objects of {', '.join(names)}, which are texts where"
            " Spark computes the view",
            "leave the type out of the mapping, or keep the view by a mirror",
        )


def derived(kind: str) -> dict[str, Any]:
    """The field of such a column, before its mapping is merged over it."""
    return {"type": kind, "dynamic": True} if kind in DYNAMIC else {"type": kind}


def with_objects(
    documents: Iterable[Document], names: Sequence[str]
) -> tuple[list[Document], list[Refused]]:
    """Documents in which these columns are no text any more; and those that cannot be."""
    whole: list[Document] = []
    odd: list[Refused] = []
    for document in documents:
        if document.body is None:
            whole.append(document)
            continue
        values = orjson.loads(document.body)
        texts = {name: values.pop(name, None) for name in names}
        if null := next((name for name, text in texts.items() if text == "null"), None):
            cause = f"{null} is JSON null; an object field cannot tell it from SQL NULL"
            odd.append(Refused(document.id, document.position, cause))
            continue
        parts = [f"{json.dumps(name)}:{text or 'null'}" for name, text in texts.items()]
        rest = orjson.dumps(values).decode()[:-1]
        body = f"{rest}{',' if values else ''}{','.join(parts)}}}"
        whole.append(document._replace(body=body))
    return whole, odd


def exact(text: str | bytes) -> Any:
    """JSON whose numbers know how they are written."""
    return json.loads(text, parse_float=Number, parse_int=_integer)


def text_of(value: Any) -> str:
    """The text of jsonb that ``exact`` has read, however deep."""
    found: list[str] = []
    left: list[tuple[bool, Any]] = [(False, value)]
    while left:
        is_text, one = left.pop()
        if is_text:
            found.append(one)
        elif isinstance(one, dict):
            names = [f"{_quoted(name)}: " for name in one]
            left += reversed([*_parts("{", names, one.values()), (True, "}")])
        elif isinstance(one, list):
            left += reversed([*_parts("[", [""] * len(one), one), (True, "]")])
        else:
            found.append(one.text if isinstance(one, Number) else _quoted(one))
    return "".join(found)


def _parts(opening: str, names: Sequence[str], values: Iterable[Any]) -> Iterator[tuple[bool, Any]]:
    """What an object or array consists of: whether it is text, and that or a value."""
    yield True, opening
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        yield True, f"{', ' if number else ''}{name}"
        yield False, value


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _LONGEST_INT else Number(text)
