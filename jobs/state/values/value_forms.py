"""How SQL reads a column out of an event's row image. Pure.

An image is read once for each row, by ``json_to_record``, which gives most types their values as it
is: it calls the type's own input function with the text that the event carries. The others are read
as text and converted by an expression, or rewritten before by Python (``value_texts``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdc.events.values.encoder import TEXT_KINDS, encoder
from cdc.events.values.times import timetz_encoder
from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import literal
from jobs.state.values.value_texts import Reader, reader

# What begins so is a year that PostgreSQL writes otherwise: 44 BC is -0043, 1 BC is 0000.
_YEARS: Final = (
    "case when left({v}, 1) not in ('+', '-', '0') then {v} "
    "when left({v}, 1) = '+' then substr({v}, 2) "
    r"when {v} ~ '^(-\d|0000-)' then "
    r"lpad((1 - substring({v} from '^(-?\d+)-')::int)::text, 4, '0') "
    r"|| substring({v} from '^-?\d+(-.*)$') || ' BC' "
    "else {v} end"
)
_NUMERIC: Final = (
    "case {v} when 'POSITIVE_INFINITY' then 'Infinity' "
    "when 'NEGATIVE_INFINITY' then '-Infinity' else {v} end"
)
_TEXTS: Final = {
    "numeric": _NUMERIC,
    "date": _YEARS,
    "timestamp": _YEARS,
    "timestamptz": _YEARS,
    "json": "{v}",
    "jsonb": "{v}",
    "vector": "{v}",
    "halfvec": "{v}",
}
"""Expressions for a text that the type reads."""
_LISTS: Final = ("vector", "halfvec")
"""The JSON is the text already, but not where its numbers were made texts."""
_REWRITTEN: Final = frozenset(
    ("point", "line", "lseg", "box", "path", "polygon", "circle", "hstore", "sparsevec")
)
_OTHER_TEXT: Final = ("hstore", "money")
"""Types whose text in events is another one than PostgreSQL's: a JSON object, a decimal."""
_TEXTS_OF: Final = TypeInfo(
    1009,
    "pg_catalog",
    "_text",
    "array",
    "array",
    -1,
    TypeInfo(25, "pg_catalog", "text", "base", "text"),
)
_ZONED: Final = "timetz"
_ELEMENT: Final = re.compile(rb"[^{},]+")
_encode_zoned: Final = timetz_encoder(_ZONED)


@dataclass(frozen=True, slots=True)
class Form:
    """``read_as`` is the column's type in ``json_to_record``; ``expression`` gives the value from
    what that read, ``{v}``. ``rewrite`` is for images that Python rewrites, which it does to all
    where ``required``."""

    read_as: str
    expression: str = "{v}"
    rewrite: Reader | None = None
    required: bool = False

    def value(self, read: str) -> str:
        """The SQL of the value; ``read`` is the column of ``json_to_record``."""
        return self.expression.replace("{v}", read)


def form(type: TypeInfo, typmod: int, column: str) -> Form:
    """The form of the values of a column that the source has as ``type`` and the mirror as
    ``column`` (SQL). ``typmod`` is the column's, or its domain's."""
    if type.kind in TEXT_KINDS:
        return Form(column)
    if type.element is not None:
        return Form(column) if _is_read(type.element) else _rewritten(type, typmod, column)
    base = type.base
    if base in _REWRITTEN or (base == "bit" and typmod > 1):
        return _rewritten(type, typmod, column)
    if base == "bytea":
        return Form("text", f"decode({{v}}, 'base64')::{column}")
    if base == "bit" and typmod == 1:
        return Form("boolean", f"case when {{v}} then '1' when not {{v}} then '0' end::{column}")
    if base == "numeric" and typmod != -1:  # which holds nothing infinite
        return Form(column)
    if base in _TEXTS:
        rewrite = reader(type, typmod) if base in _LISTS else None
        return Form("text", f"({_TEXTS[base]})::{column}", rewrite)
    return Form(column)


def kept_text(type: TypeInfo) -> Callable[[bytes], bytes] | None:
    """From PostgreSQL's text to the one that events have, for the values of a type that the state
    database lacks: views show that text. None where it is the same, for all types that can be
    lacking but hstore, money, and arrays of them."""
    if (type.element or type).base not in _OTHER_TEXT:
        return None
    encode, made = encoder(type, type.typmod), reader(_TEXTS_OF, -1) if type.element else None
    assert encode is not None, "no integer"

    def kept(text: bytes) -> bytes:
        value = json.loads(encode(text))
        return (made(value) if made else value).encode()

    return kept


def filled_text(type: TypeInfo) -> Callable[[bytes], bytes] | None:
    """From PostgreSQL's text to that of the value which events have: a ``timetz`` is the time in
    UTC, also in an array, which is PostgreSQL's own text where it has other lower bounds than 1.
    None where the value is the same, for all other types."""
    if type.kind in TEXT_KINDS:
        return None
    if type.element is None:
        return _in_utc if type.base == _ZONED else None
    if type.element.base != _ZONED or type.element.kind in TEXT_KINDS:
        return None
    return lambda text: text if text[:1] == b"[" else _ELEMENT.sub(_element_in_utc, text)


def _in_utc(text: bytes) -> bytes:
    return bytes(_encode_zoned(text)[1:-1])


def _element_in_utc(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0] == b"NULL" else _in_utc(found[0])


def with_former_labels(form: Form, column: str, former: Sequence[tuple[str, str]]) -> Form:
    """The form of an enum's column, or of an array of enums, in which events may have labels by
    names that they had before; ``former`` are these, each with what the label is called now."""
    if column.endswith("[]"):
        read = "{v}"
        for was, now in former:
            read = f"pg_catalog.array_replace({read}, {_text(was)}, {_text(now)})"
        return replace(form, read_as="text[]", expression=f"({read})::{column}")
    cases = " ".join(f"when {_text(was)} then {_text(now)}" for was, now in former)
    expression = f"(case {{v}} {cases} else {{v}} end)::{column}"
    return replace(form, read_as="text", expression=expression)


def _text(label: str) -> str:
    apart = literal(label).replace("{v}", "{' || 'v}")  # it is no place for the value
    return f"({apart}::text)"


def _rewritten(type: TypeInfo, typmod: int, column: str) -> Form:
    return Form(column, rewrite=reader(type, typmod), required=True)


def _is_read(element: TypeInfo) -> bool:
    """Whether ``json_to_record`` reads an array of such elements."""
    if element.kind in TEXT_KINDS:
        return True
    special = element.base in _TEXTS or element.base in _REWRITTEN
    others = ("bytea", "bit", "money")
    return not special and element.element is None and element.base not in others
