"""A Connect schema as a JSON Schema, as Confluent's ``JsonSchemaConverter`` registers it. Pure.

Payloads are what ``JsonConverter`` writes without schemas. ``title`` is the schema's name, and
``connect.type``, ``connect.version``, ``connect.parameters`` and ``connect.index`` are what Connect
makes the same schema of again.
"""

from __future__ import annotations

import json
from typing import Any, Final

from cdc.events.schemas.schema import Schema

_TYPES: Final[dict[str, dict[str, Any]]] = {
    "boolean": {"type": "boolean"},
    "int16": {"type": "integer", "connect.type": "int16"},
    "int32": {"type": "integer", "connect.type": "int32"},
    "int64": {"type": "integer", "connect.type": "int64"},
    "float": {"type": "number", "connect.type": "float32"},
    "double": {"type": "number", "connect.type": "float64"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "connect.type": "bytes"},
}
_NUMBERS: Final = frozenset({"float", "double"})
_NOT_FINITE: Final = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}


def json_schema(schema: Schema) -> str:
    """The document that a registry keeps."""
    return json.dumps(_of(schema), ensure_ascii=False, separators=(",", ":"))


def _of(schema: Schema) -> dict[str, Any]:
    found = _required(schema)
    if not schema.optional:
        return found
    if "oneOf" in found:
        return found | {"oneOf": [{"type": "null"}, *found["oneOf"]]}
    return {"oneOf": [{"type": "null"}, found]}


def _required(schema: Schema) -> dict[str, Any]:
    found = _type(schema)
    if schema.name:
        found["title"] = schema.name
    if schema.version is not None:
        found["connect.version"] = schema.version
    if schema.doc:
        found["description"] = schema.doc
    if schema.parameters:
        found["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = schema.default
    return found


def _type(schema: Schema) -> dict[str, Any]:
    if schema.type == "struct":
        properties = {
            name: _of(of) | {"connect.index": at} for at, (name, of) in enumerate(schema.fields)
        }
        required = [name for name, of in schema.fields if not of.optional]
        found: dict[str, Any] = {"type": "object", "properties": properties}
        return found | ({"required": required} if required else {})
    if schema.items is not None:
        return {"type": "array", "items": _of(schema.items)}
    if schema.keys is not None and schema.values is not None:
        return _map(schema.keys, schema.values)
    if schema.type in _NUMBERS:
        return {"oneOf": [dict(_TYPES[schema.type]), dict(_NOT_FINITE)]}
    return dict(_TYPES[schema.type])


def _map(keys: Schema, values: Schema) -> dict[str, Any]:
    if keys.type == "string":
        return {"type": "object", "connect.type": "map", "additionalProperties": _of(values)}
    entry = {"type": "array", "items": [_of(keys), _of(values)]}
    return {"type": "array", "connect.type": "map", "items": entry}
