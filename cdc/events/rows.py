"""Rows and keys of one table version as JSON, in the form of its topic. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdc.errors import SourceError
from cdc.events.form import Form
from cdc.events.keys.exactness import Note, Unheld, guarded_key, key_guards, noted
from cdc.events.schemas.event_schemas import key_schema
from cdc.events.schemas.placeholders import placeholder
from cdc.events.schemas.schema import schema_head, with_head
from cdc.events.values.encoder import Encoder, cell_encoder, quote
from cdc.protocol.messages import UNCHANGED, Value, Values
from cdc.protocol.relation import Relation
from cdc.routes.faults import key_fault
from cdc.routes.route import Place

NULL: Final = b"null"


class RowEncoder:
    """Rows and keys of one table version as JSON objects. ``source`` is the prefix of its topic."""

    __slots__ = (
        "_encoders",
        "_head",
        "_key",
        "_key_encoders",
        "_key_template",
        "_part",
        "_part_template",
        "_silent",
        "_template",
        "_unsent",
        "mark",
    )

    def __init__(
        self, relation: Relation, form: Form, source: str, unheld: Unheld | None = None
    ) -> None:
        columns = relation.columns
        self._silent = [cell_encoder(column, form) for column in columns]
        self._encoders = [
            _noting(encode, noted(relation, column, form, unheld))
            for encode, column in zip(self._silent, columns, strict=True)
        ]
        names = [column.name for column in columns]
        self._unsent = [placeholder(column, form) for column in columns]
        self.mark = b"" if form.schemas else quote(form.placeholder.encode())
        """What a row with a placeholder contains; empty where placeholders fit their types."""
        self._template = json_object(names)
        self._key = [names.index(name) for name in relation.key]
        self._key_encoders = list(self._silent)
        for name, guard in key_guards(relation, form).items():
            at = names.index(name)
            encode = self._silent[at]
            assert encode is not None, "an integer is held"
            self._key_encoders[at] = guarded_key(relation, name, guard, encode)
        place = refused_place(relation, form, source)
        self._key_template = with_tail(json_object(list(relation.key)), place.key_tail)
        self._part = [names.index(name) for name in place.partition_by]
        self._part_template = json_object(list(place.partition_by))
        self._head = key_head(relation, form, source)
        self._key_template = with_head(escaped(self._head), self._key_template)

    def row(self, values: Values) -> bytes:
        """The row as a JSON object; unchanged TOAST becomes the placeholder."""
        cells: list[bytes] = []
        append = cells.append
        for value, encode in zip(values, self._encoders, strict=True):
            if value is None:
                append(NULL)
            elif value is UNCHANGED:
                append(self._unsent[len(cells)])
            elif encode is None:
                append(value)
            else:
                append(encode(value))
        return self._template % tuple(cells)

    def key(self, values: Values) -> bytes | None:
        """The key as a JSON object, ``None`` for a table without a key. Raises ``InexactKeyError``
        for a value that the form does not hold exactly."""
        columns = self._key
        if len(columns) == 1:  # nearly every table: spared the list and the tuple
            return self._key_template % self._key_cell(values[columns[0]], columns[0])
        if not columns:
            return None
        return self._key_template % tuple([self._key_cell(values[i], i) for i in columns])

    def partition_key(self, values: Sequence[Value]) -> bytes:
        """What chooses the partition where some columns of the key do so: these, as a key of them
        alone would be in JSON."""
        return self._part_template % tuple([self._key_cell(values[i], i) for i in self._part])

    def without_schema(self, key: bytes) -> bytes:
        """A key as Debezium writes it into headers, which never have a schema: Kafka Connect reads
        a header as text, and stops at a map whose values are of several types."""
        return key[len(self._head) : -1] if self._head else key

    @property
    def key_columns(self) -> list[int]:
        """Where the key's columns stand in a row."""
        return self._key

    def key_values(self, values: Values) -> Values:
        """The values of the key columns, in key order."""
        return [values[i] for i in self._key]

    def are_null(self, values: Values, columns: list[int]) -> bool:
        """Whether one of these columns has null in the row that ``values`` become."""
        return any(self._cell(values[i], i) == NULL for i in columns)

    def _key_cell(self, value: Value, column: int) -> bytes:
        if value is None:
            return NULL
        if value is UNCHANGED:
            return self._unsent[column]
        encode = self._key_encoders[column]
        return value if encode is None else encode(value)

    def _cell(self, value: Value, column: int) -> bytes:
        if value is None:
            return NULL
        if value is UNCHANGED:
            return self._unsent[column]
        encode = self._silent[column]
        return value if encode is None else encode(value)


def _noting(encode: Encoder | None, note: Note | None) -> Encoder | None:
    if note is None or encode is None:
        return encode
    tell, as_json = note, encode

    def noting(text: bytes) -> bytes:
        tell((text,))
        return as_json(text)

    return noting


def refused_place(relation: Relation, form: Form, source: str) -> Place:
    """Where a table's events are. Raises ``SourceError`` where its key does not fit there."""
    place = form.place(source, relation.schema, relation.table)
    if fault := key_fault(relation.name, relation.key, place):
        raise SourceError(*fault)
    return place


def with_tail(template: bytes, tail: bytes) -> bytes:
    """A JSON object with more fields at its end."""
    return template[:-1] + tail + template[-1:] if tail else template


def key_head(relation: Relation, form: Form, source: str) -> bytes:
    """What stands in front of a table's keys: with their schema, or empty without one."""
    return schema_head(key_schema(relation, source, form)) if form.wrapped else b""


def required_columns(relation: Relation, form: Form) -> list[int]:
    """The places of columns that the table's schema lets be no null; none without schemas."""
    if not form.wrapped:
        return []
    return [at for at, column in enumerate(relation.columns) if not column.nullable]


def json_object(names: list[str]) -> bytes:
    """A template with one ``%b`` for each name's value."""
    pairs = [escaped(quote(name.encode())) + b":%b" for name in names]
    return b"{" + b",".join(pairs) + b"}"


def escaped(literal: bytes) -> bytes:
    """As it stands in a template."""
    return literal.replace(b"%", b"%%")
