"""What stands for a large value that an UPDATE left alone, column by column. Pure.

Without schemas it is one text, whatever the type. With them it has to be a value of the type:
Debezium's, where it has one, else null. ``source.unchanged`` names the columns in any case.
"""

from __future__ import annotations

from binascii import b2a_base64
from hashlib import md5
from typing import Final
from uuid import UUID

from cdc.events.form import Form
from cdc.events.schemas.column_schema import type_schema
from cdc.events.schemas.schema import Schema
from cdc.events.values.encoder import quote
from cdc.protocol.relation import Column, TypeInfo

_NULL: Final = b"null"


def placeholder(column: Column, form: Form) -> bytes:
    """As JSON."""
    text = quote(form.placeholder.encode())
    if not form.schemas:
        return text
    schema = type_schema(column.type, column.typmod, form)
    if schema.type == "map":
        return b"{%b:%b}" % (text, text)
    if schema.items is not None and column.type.element is not None:
        of_element = _in_array(column.type.element, schema.items, form)
        return _NULL if of_element is None else b"[%b]" % of_element
    return _single(column.type, schema, form)


def _single(type: TypeInfo, schema: Schema, form: Form) -> bytes:
    text = form.placeholder.encode()
    if schema.type == "string":
        return quote(text)
    return b'"%b"' % b2a_base64(text, newline=False) if type.base == "bytea" else _NULL


def _in_array(element: TypeInfo, schema: Schema, form: Form) -> bytes | None:
    """The element, or the elements, that tell; None where there are none."""
    octets = form.placeholder.encode()
    if element.base == "uuid":
        named = UUID(bytes=md5(octets, usedforsecurity=False).digest(), version=3)
        return quote(str(named).encode())
    if schema.type in ("int32", "int64"):
        return b",".join(b"%d" % octet for octet in octets)
    found = _single(element, schema, form)
    return None if found == _NULL else found
