"""A Connect schema as messages of Protobuf, as near to Confluent's ``ProtobufConverter`` as nothing
is lost. Pure.

A column's field has the number that the column has in ``pg_attribute``, so it keeps it when others
come and go; numbers that no column has are reserved. What ``repeated`` cannot hold (an array that
is null, an element that is) stands in a message of its own, ``Array_<field>`` or ``Map_<field>``.
https://protobuf.dev/programming-guides/proto3/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cdc.events.formats.names import full_name, plain_name
from cdc.events.schemas.column_numbers import FIRST_BY_NAME
from cdc.events.schemas.schema import Schema

ARRAY, MAP = "Array_", "Map_"
"""How messages begin that stand for an array or a map; fields of these have the names below."""
ITEMS, ENTRIES = "items", "entries"
KEY, VALUE = "key", "value"
DECIMAL: Final = "confluent.type.Decimal"
DATE: Final = "google.type.Date"
TIME: Final = "google.type.TimeOfDay"
TIMESTAMP: Final = "google.protobuf.Timestamp"
SCALARS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "boolean": "bool",
        "int16": "int32",
        "int32": "int32",
        "int64": "int64",
        "float": "float",
        "double": "double",
        "string": "string",
        "bytes": "bytes",
    }
)
KNOWN: Final = frozenset(SCALARS.values()) | {DECIMAL, DATE, TIME, TIMESTAMP}
"""Types that stand in no message of the file."""
_LOGICAL: Final = {
    "org.apache.kafka.connect.data.Decimal": DECIMAL,
    "org.apache.kafka.connect.data.Date": DATE,
    "org.apache.kafka.connect.data.Time": TIME,
    "org.apache.kafka.connect.data.Timestamp": TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Message:
    """``fields`` as they are declared; ``messages`` are those that stand in it."""

    name: str
    fields: tuple[Field, ...]
    messages: tuple[Message, ...] = ()
    reserved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """``type`` is a scalar of Protobuf, a message that is known everywhere, or one of this file's,
    which is ``message`` then. ``original`` is the name of the column; ``options`` are told to
    ``ProtobufConverter``."""

    number: int
    name: str
    original: str
    type: str
    repeated: bool = False
    optional: bool = False
    message: Message | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def wraps(self) -> str:
        """``ARRAY`` or ``MAP`` of a message that stands for one."""
        if self.message is None or len(self.message.fields) != 1:
            return ""
        name, field = self.message.name, self.message.fields[0].name
        if name.startswith(ARRAY) and field == ITEMS:
            return ARRAY
        return MAP if name.startswith(MAP) and field == ENTRIES else ""


@dataclass(frozen=True, slots=True)
class File:
    """One schema of a registry: its first message is a record's."""

    package: str
    message: Message


def protobuf_file(schema: Schema) -> File:
    """Of keys or values."""
    package, _, own = full_name(schema.name).rpartition(".")
    return File(package, _Messages(schema).whole(own, schema))


class _Messages:
    """All messages stand in the first one, each under a name that no field has: names of fields and
    messages are looked up together."""

    def __init__(self, schema: Schema) -> None:
        self._taken = set(_field_names(schema))
        self._made: dict[str, Message] = {}
        self._names: dict[tuple[str, Schema], str] = {}

    def whole(self, name: str, schema: Schema) -> Message:
        fields = self._fields(schema)
        return Message(name, fields, tuple(self._made.values()), _gaps(schema.numbers))

    def _fields(self, schema: Schema) -> tuple[Field, ...]:
        return tuple(
            self._field(number, name, original, of)
            for (number, name), (original, of) in zip(_named(schema), schema.fields, strict=True)
        )

    def _field(self, number: int, name: str, original: str, schema: Schema) -> Field:
        if schema.items is not None and not schema.items.optional:
            one = self._field(number, name, original, schema.items)
            return Field(number, name, original, one.type, True, False, one.message, one.options)
        optional, message = schema.optional, self._message(name, schema)
        if message is not None:
            return Field(number, name, original, message.name, False, optional, message)
        type_ = _LOGICAL.get(schema.name) or SCALARS[schema.type]
        return Field(number, name, original, type_, False, optional, None, _options(schema))

    def _message(self, field: str, schema: Schema) -> Message | None:
        """What a field holds that is no scalar."""
        if schema.items is not None:
            item = Message("Item", (self._field(1, VALUE, VALUE, schema.items),))
            return self._wrapper(ARRAY + field, schema, ITEMS, item)
        if schema.keys is not None and schema.values is not None:
            of_key = self._field(1, KEY, KEY, schema.keys)
            entry = Message("Entry", (of_key, self._field(2, VALUE, VALUE, schema.values)))
            return self._wrapper(MAP + field, schema, ENTRIES, entry)
        if schema.type != "struct":
            return None
        own = plain_name(schema.name.rpartition(".")[2]) if schema.name else f"Struct_{field}"
        plain = schema.as_optional(False)
        if (name := self._names.get((own, plain))) is not None:
            return self._made[name]
        fields = self._fields(schema)
        name = self._names[own, plain] = self._free(own)
        return self._keep(Message(name, fields, (), _gaps(schema.numbers)))

    def _wrapper(self, name: str, schema: Schema, field: str, one: Message) -> Message:
        plain = schema.as_optional(False)
        if (known := self._names.get((name, plain))) is not None:
            return self._made[known]
        free = self._names[name, plain] = self._free(name)
        fields = (Field(1, field, field, one.name, True, False, one),)
        return self._keep(Message(free, fields, (one,)))

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _keep(self, made: Message) -> Message:
        self._made[made.name] = made
        return made


def _options(schema: Schema) -> tuple[tuple[str, str], ...]:
    if schema.type == "int16":
        return (("connect.type", "int16"),)
    if _LOGICAL.get(schema.name) != DECIMAL:
        return ()
    given = dict(schema.parameters)
    found = {"precision": given.get("connect.decimal.precision"), "scale": given["scale"]}
    return tuple((name, value) for name, value in found.items() if value is not None)


def _gaps(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of columns that are not there, or that are not published."""
    low = [number for number in numbers if number < FIRST_BY_NAME]
    return tuple(sorted(set(range(1, max(low, default=0))) - set(low)))


def _named(schema: Schema) -> Iterator[tuple[int, str]]:
    """Number and name of each field. Of names that would be one in JSON the later ones have their
    number behind them: Protobuf refuses them, whatever ``json_name`` says."""
    numbers, taken = schema.numbers or range(1, len(schema.fields) + 1), set[str]()
    for number, (original, _) in zip(numbers, schema.fields, strict=True):
        name = plain_name(original)
        while json_name(name) in taken:
            name += f"_{number}"
        taken.add(json_name(name))
        yield number, name


def json_name(name: str) -> str:
    """What Protobuf takes for the name in JSON where nothing says it."""
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def _field_names(schema: Schema) -> Iterator[str]:
    for (_, name), (_, of) in zip(_named(schema), schema.fields, strict=True):
        yield name
        yield from _field_names(of)
    for one in (schema.items, schema.keys, schema.values):
        if one is not None:
            yield from _field_names(one)
