"""PostgreSQL's text of a column's values, brought to the form that events have for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from cdc.events.values.encoder import Encoder, encoder
from cdc.protocol.relation import TypeInfo
from verification.values.nested_rows import Form, built_in, is_nested, nested_form
from views.types import PgType

TIMES = frozenset(("date", "timestamp", "timestamptz"))
has_four_digits = re.compile(r"\d{4}-").match
"""Whether a text of these begins with a year of 1 to 9999."""
# Their event form is their text.
_PLAIN = frozenset(
    ("text", "varchar", "bpchar", "name", "json", "jsonb", "uuid", "enum", "numeric")
)
_BITS = re.compile(rb"[01]+")


def source_form(
    kind: PgType,
    types: Mapping[int, TypeInfo],
    of_type: TypeInfo,
    typmod: int,
    *,
    described: bool = False,
) -> Form | None:
    """How PostgreSQL's text of a column becomes what events carry, also inside of nested rows.

    ``described``: the view knows of the column what PostgreSQL says, and no typmod beyond that.
    """
    if not is_nested(kind):
        told = of_type.typmod if of_type.base == "money" else typmod  # its currency's digits
        encode = encoder(of_type, told) if described else _encoder(of_type, typmod)
        return _event_form(kind, encode)
    type_of = built_in(types)

    def of_field(field: PgType) -> Form | None:
        found = type_of(field)
        return None if found is None else _event_form(field, _encoder(found, -1))

    return nested_form(kind, of_field)


def _encoder(of_type: TypeInfo, typmod: int) -> Encoder | None:
    """As of a column. Aggregates and nested rows lose the typmod, which bit(n) is as long as."""
    known = of_type.typmod if typmod == -1 else typmod
    element = of_type.element or of_type
    if known != -1 or element.base != "bit":
        return encoder(of_type, known)

    def encode(text: bytes) -> bytes:
        bits = _BITS.search(text)
        each = encoder(of_type, len(bits[0]) if bits else known)
        assert each is not None, "no integer"
        return each(text)

    return encode


def _event_form(kind: PgType, encode: Encoder | None) -> Form | None:
    """From PostgreSQL's text to what an event carries, where the canonical form needs that."""
    if encode is None or (
        kind.name != "array" and kind.spark != "string" and kind.name not in TIMES
    ):
        return None
    if kind.name in _PLAIN:
        return None

    def decode(text: str) -> Any:
        return orjson.loads(encode(text.encode()))

    if kind.name in TIMES:  # PostgreSQL writes years 1 to 9999 as events do, and others not
        return lambda text: text if has_four_digits(text) and text[-1] != "C" else decode(text)
    return decode
