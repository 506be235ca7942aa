"""A Connect schema as an Avro schema, as Confluent's ``AvroConverter`` registers it. Pure.

https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import json
from typing import Any, Final

from cdc.events.formats.names import full_name, plain_names
from cdc.events.schemas.schema import Schema

ORIGINAL: Final = "headwater.name"
"""Of a field whose column has another name than Avro allows."""
MAP_ENTRY: Final = "MapEntry"
_NAMESPACE: Final = "io.confluent.connect.avro"
_UNNAMED: Final = "ConnectDefault"
_PRECISION: Final = 64
"""Of a decimal whose schema does not say."""
_SIMPLE: Final = {
    "boolean": "boolean",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_LOGICAL: Final = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}


def avro_schema(schema: Schema) -> str:
    """The document that a registry keeps."""
    return json.dumps(_Names().of(schema), ensure_ascii=False, separators=(",", ":"))


class _Names:
    """A named type is written out where it stands first, and by its name from then on: without the
    namespace where that is of the record around it, as Avro's own library writes schemas."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._unnamed = 0

    def of(self, schema: Schema, around: str = "") -> Any:
        """``around`` is the namespace of the record that the schema stands in."""
        made = self._required(schema, around)
        if not schema.optional:
            return made
        return ["null", made] if schema.default is None else [made, "null"]

    def _required(self, schema: Schema, around: str) -> Any:
        if schema.type == "struct":
            return self._record(schema, around)
        made = self._type(schema, around)
        told = _properties(schema)
        if isinstance(made, dict):
            return made | told
        return {"type": made, **told} if told else made

    def _type(self, schema: Schema, around: str) -> Any:
        if schema.items is not None:
            return {"type": "array", "items": self.of(schema.items, around)}
        if schema.values is not None and schema.keys is not None:
            if schema.keys.type == "string":
                return {"type": "map", "values": self.of(schema.values, around)}
            entry = Schema(
                "struct",
                name=f"{_NAMESPACE}.{MAP_ENTRY}",
                fields=(("key", schema.keys), ("value", schema.values)),
            )
            return {"type": "array", "items": self._record(entry, around, told=False)}
        return _SIMPLE[schema.type]

    def _record(self, schema: Schema, around: str, *, told: bool = True) -> Any:
        name = full_name(schema.name) if schema.name else self._default_name()
        namespace, _, own = name.rpartition(".")
        if name in self._told:
            return own if namespace == around else name
        self._told.add(name)
        names = plain_names((field for field, _ in schema.fields), schema.name)
        fields = [self._field(names[field], field, of, namespace) for field, of in schema.fields]
        found: dict[str, Any] = {"type": "record", "name": own}
        if namespace != around:
            found["namespace"] = namespace
        return found | {"fields": fields} | (_properties(schema) if told else {})

    def _default_name(self) -> str:
        self._unnamed += 1
        return f"{_NAMESPACE}.{_UNNAMED}{self._unnamed if self._unnamed > 1 else ''}"

    def _field(self, name: str, original: str, schema: Schema, around: str) -> dict[str, Any]:
        field: dict[str, Any] = {"name": name, "type": self.of(schema, around)}
        if schema.default is not None:
            field["default"] = schema.default
        elif schema.optional:
            field["default"] = None
        if name != original:
            field[ORIGINAL] = original
        return field


def _properties(schema: Schema) -> dict[str, Any]:
    """What Connect needs to make the same schema of it again."""
    told: dict[str, Any] = {}
    if schema.name == DECIMAL:
        told |= _decimal(schema)
    if schema.doc:
        told["connect.doc"] = schema.doc
    if schema.version is not None:
        told["connect.version"] = schema.version
    if schema.parameters:
        told["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        told["connect.default"] = schema.default
    if schema.name:
        is_record = schema.type == "struct"
        told["connect.name"] = full_name(schema.name) if is_record else schema.name
    if schema.type == "int16":
        told["connect.type"] = "int16"
    if logical := _logical_type(schema):
        told["logicalType"] = logical
    return told


def _decimal(schema: Schema) -> dict[str, int]:
    given = dict(schema.parameters)
    precision = given.get("connect.decimal.precision", _PRECISION)
    return {"scale": int(given["scale"]), "precision": int(precision)}


def _logical_type(schema: Schema) -> str:
    """Avro has no negative scale: of such a one it knows Connect's name only."""
    if schema.name != DECIMAL:
        return _LOGICAL.get(schema.name, "")
    digits = _decimal(schema)
    return "decimal" if 0 <= digits["scale"] <= digits["precision"] else ""
