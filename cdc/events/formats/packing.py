"""Keys and values in the format of a source's topics, each behind its schema's id. Pure but for
what it asks of its owner: the id of a schema (``Registry``).

JSON needs no packing: there is a ``Packing`` only for the formats whose schemas are in a registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from cdc.errors import LogError, SourceError
from cdc.events.flat.row_schema import row_schema
from cdc.events.form import Form
from cdc.events.formats.avro_schema import avro_schema
from cdc.events.formats.avro_writer import avro_writer
from cdc.events.formats.framing import framed
from cdc.events.formats.json_schema import json_schema
from cdc.events.formats.names import full_name
from cdc.events.formats.protobuf_messages import protobuf_file
from cdc.events.formats.protobuf_text import file_text
from cdc.events.formats.protobuf_writer import protobuf_writer
from cdc.events.formats.subjects import Role
from cdc.events.schemas.event_schemas import event_schema, key_schema
from cdc.events.schemas.schema import Schema
from cdc.protocol.relation import Relation

Pack = Callable[[bytes], bytes]
"""From an event's JSON, or a key's, to what the record holds."""


class Registry(Protocol):
    """Where schemas are kept."""

    def id_of(self, topic: str, role: Role, record: str, kind: str, document: str) -> int:
        """The id of a schema of this kind (``AVRO``, ``JSON``, ``PROTOBUF``), registered if need
        be, for keys or values of ``topic``; ``record`` is its full name. What is known is not asked
        for again.

        Raises ``RetryableError`` while the registry does not answer, ``LogError`` when it refuses.
        """
        ...


class NoIds:
    """In place of a registry, for what is only compared."""

    def id_of(self, _topic: str, _role: Role, _record: str, _kind: str, _document: str) -> int:
        """See ``Registry``."""
        return 0


class _Translated(NamedTuple):
    """What a format makes of a schema: its kind and document in the registry, what writes."""

    kind: str
    document: str
    write: Pack


def _translated(schema: Schema, form: Form) -> _Translated:
    if form.format == "avro":
        return _Translated("AVRO", avro_schema(schema), avro_writer(schema))
    if form.format == "protobuf":
        file = protobuf_file(schema)
        return _Translated("PROTOBUF", file_text(file), protobuf_writer(file.message))
    return _Translated("JSON", json_schema(schema), bytes)


class Packing:
    """Keys and values of one topic, as their schemas have them, which are registered when it is
    made."""

    def __init__(
        self,
        topic: str,
        form: Form,
        registry: Registry | None,
        key: Schema | None,
        value: Schema,
    ) -> None:
        if registry is None:
            raise LogError(
                f"topic {topic} holds records whose schemas are in a registry, and there is none",
                f'set events.format = "{form.format}" and [events.registry] as they were',
            )
        self._topic, self._form, self._registry = topic, form, registry
        self.key_head: bytes = b""
        self._key: Pack = _none
        if key is not None:
            self.key_head, self._key = self._of("key", key)
        self.value_head, self._value = self._of("value", value)

    def key(self, text: bytes) -> bytes:
        """Of a key's JSON. Raises ``SourceError`` for null where the schema has none."""
        try:
            return self.key_head + self._key(text)
        except TypeError:
            raise SourceError(
                f"topic {self._topic}: a row has null in a column of its key, which is NOT NULL "
                "now: the row was changed before that, and cannot have a key",
                "run `headwater init --again`: it takes the rows as they are now",
            ) from None

    def value(self, text: bytes) -> bytes:
        """Of an event's JSON."""
        return self.value_head + self._value(text)

    def _of(self, role: Role, schema: Schema) -> tuple[bytes, Pack]:
        made = _translated(schema, self._form)
        name = full_name(schema.name)
        id_ = self._registry.id_of(self._topic, role, name, made.kind, made.document)
        return framed(id_, protobuf=self._form.format == "protobuf"), made.write


def packed_schema(relation: Relation, source: str, form: Form) -> Schema:
    """Of a table's events. No column is required, outside of the key: so a registry finds each
    version compatible with the one before when columns come or go, whatever is NOT NULL."""
    if form.has_rows:
        return row_schema(relation, source, form, relaxed=True)
    return event_schema(relation, source, form, relaxed=True)


def table_packing(
    relation: Relation, source: str, form: Form, registry: Registry | None
) -> Packing | None:
    """Of a table's topic; None where its records are JSON."""
    if not form.registered:
        return None
    return Packing(
        form.place(source, relation.schema, relation.table).topic,
        form,
        registry,
        key_schema(relation, source, form) if relation.key else None,
        packed_schema(relation, source, form),
    )


def topic_packing(
    topic: str, form: Form, registry: Registry | None, key: Schema, value: Schema
) -> Packing | None:
    """Of a topic that is of no table."""
    if not form.registered:
        return None
    return Packing(topic, form, registry, key, value)


def _none(text: bytes) -> bytes:
    raise AssertionError(f"a key of {len(text)} bytes where none is expected")
