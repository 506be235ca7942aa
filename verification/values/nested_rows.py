"""Rows that a view nests, as PostgreSQL gives them: JSON whose values are all texts. Pure.

A store has the values that events carry, which for some types (times of day, intervals, arrays)
are not PostgreSQL's text: each field is brought to that form by its own type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from cdc.protocol.relation import TypeInfo
from views.types import PgType

Form = Callable[[str], Any]
"""From PostgreSQL's text to another form of the value."""


def is_nested(kind: PgType) -> bool:
    """Whether values are nested rows, or arrays of them."""
    return "struct" in (kind.name, kind.element)


def nested_form(kind: PgType, form_of: Callable[[PgType], Form | None]) -> Form:
    """For a column of nested rows: from JSON's text to objects whose values have ``form_of``'s
    form for their types; None leaves them as they are."""
    of = _form(kind, form_of)
    return lambda text: of(orjson.loads(text))


def built_in(types: Mapping[int, TypeInfo]) -> Callable[[PgType], TypeInfo | None]:
    """The type of the database that values of a view's type have the form of."""
    found: dict[tuple[str, str], TypeInfo] = {}
    for info in types.values():
        if info.kind != "domain":
            found.setdefault((info.base, info.element.base if info.element else ""), info)
    return lambda kind: found.get((kind.name, kind.element))


def _form(kind: PgType, form_of: Callable[[PgType], Form | None]) -> Callable[[Any], Any]:
    if kind.name == "array" and kind.element == "struct":
        item = _form(kind.item, form_of)
        return lambda rows: [None if row is None else item(row) for row in rows]
    if kind.name != "struct":
        return form_of(kind) or _same
    fields = {name: _form(of, form_of) for name, of in kind.fields}

    def formed(row: dict[str, Any]) -> dict[str, Any]:
        return {n: None if row.get(n) is None else of(row[n]) for n, of in fields.items()}

    return formed


def _same(value: Any) -> Any:
    return value
