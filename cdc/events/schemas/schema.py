"""A schema as plain data, and its JSON as Connect's ``JsonConverter`` writes it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Schema:
    """``type`` is JsonConverter's word: boolean, int16, int32, int64, float (of 32 bits), double,
    string, bytes, array (of ``items``), map (of ``keys`` to ``values``) or struct (of ``fields`` by
    name, in order). ``name`` and ``version`` are those of what the type stands for; ``numbers`` are
    the fields', where they are not counted from 1."""

    type: str
    optional: bool = False
    name: str = ""
    version: int | None = None
    doc: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    fields: tuple[tuple[str, Schema], ...] = ()
    numbers: tuple[int, ...] = ()
    items: Schema | None = None
    keys: Schema | None = None
    values: Schema | None = None

    def as_optional(self, optional: bool = True) -> Schema:
        """The same schema, which lets null by or not."""
        return self if self.optional == optional else replace(self, optional=optional)

    def document(self) -> dict[str, Any]:
        """The JSON object, its members in JsonConverter's order."""
        found: dict[str, Any] = {"type": self.type}
        if self.type == "struct":
            found["fields"] = [{**of.document(), "field": name} for name, of in self.fields]
        for member in ("items", "keys", "values"):
            if (of := getattr(self, member)) is not None:
                found[member] = of.document()
        found["optional"] = self.optional
        for member in ("name", "version", "doc"):
            if value := getattr(self, member):
                found[member] = value
        if self.parameters:
            found["parameters"] = dict(self.parameters)
        if self.default is not None:
            found["default"] = self.default
        return found

    def json(self) -> bytes:
        """``document`` as text."""
        return json.dumps(self.document(), ensure_ascii=False, separators=(",", ":")).encode()


STRING: Final = Schema("string")
INT32: Final = Schema("int32")
INT64: Final = Schema("int64")
DOUBLE: Final = Schema("double")
BYTES: Final = Schema("bytes")


def struct(name: str, version: int | None = None, /, doc: str = "", **fields: Schema) -> Schema:
    """A required struct."""
    return Schema("struct", name=name, version=version, doc=doc, fields=tuple(fields.items()))


def schema_head(schema: Schema) -> bytes:
    """What stands in front of a payload that has its schema with it."""
    return b'{"schema":%b,"payload":' % schema.json()


def with_head(head: bytes, payload: bytes) -> bytes:
    """The record: ``head`` is from ``schema_head``, or empty without a schema."""
    return b"%b%b}" % (head, payload) if head else payload
