"""The form of events: the modes of ``[events]``, by Debezium's names. Pure.

What is here decides the bytes of a source's topics, so a topic has one form from its first record
to its last: progress marks and snapshots remember ``recorded``. What is emitted in each mode is in
``docs/event-modes.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from cdc.events.codes import DELETE, PLACEHOLDER, TRUNCATE
from cdc.routes.content import CONTENT_NAMES
from cdc.routes.content import Content as Content
from cdc.routes.content import Deletes as Deletes
from cdc.routes.route import Place, Route, place_of

Times = Literal[
    "isostring",
    "adaptive",
    "adaptive_time_microseconds",
    "connect",
    "microseconds",
    "nanoseconds",
]
Decimals = Literal["string", "double", "precise"]
Binaries = Literal["base64", "base64-url-safe", "hex", "bytes"]
Intervals = Literal["string", "numeric"]
Hstores = Literal["json", "map"]
Format = Literal["json", "avro", "json-schema", "protobuf"]


@dataclass(frozen=True, slots=True)
class Form:
    """How events are written. Each of the first fields is part of what a topic is; ``skipped`` and
    ``tombstones`` say which events there are, and may change at any time."""

    content: Content = "event"
    """What a value is: the event with both images, the row alone (``cdc.events.flat``), or the
    event as CloudEvents have it (``cdc.events.cloud``)."""
    added: str = ""
    """Fields that a row gets beside its columns, as ``add.fields`` names them."""
    headers: str = ""
    """The same of headers that a row's record has, each with ``header_prefix`` before it."""
    header_prefix: str = "__"
    deletes: Deletes = "tombstone"
    """What there is of a deleted row, where values are rows."""
    format: Format = "json"
    """Of all but JSON the schemas are in a registry, and ``schemas`` is True: values fit them."""
    schemas: bool = False
    times: Times = "isostring"
    decimals: Decimals = "string"
    binaries: Binaries = "base64"
    intervals: Intervals = "string"
    hstores: Hstores = "json"
    placeholder: str = PLACEHOLDER
    skipped: frozenset[str] = frozenset()
    """Codes of operations (``cdc.events.codes``) of which there are no events."""
    tombstones: bool = True
    routes: tuple[Route, ...] = ()
    """Which topics tables go to, and what values are there; of each table marks remember it
    (``cdc.events.marks``)."""

    def place(self, source: str, schema: str, table: str) -> Place:
        """Where a table's events are."""
        return place_of(source, self.routes, schema, table)

    def of(self, place: Place) -> Form:
        """The form of a table's topic: a route may have a content of its own."""
        if not place.content.recorded:
            return self
        return replace(self, **place.content._asdict())

    def outputs(self, source: str, schema: str, table: str) -> list[tuple[Form, Place]]:
        """What a table's topics are, each as if it were the only one."""
        place = self.place(source, schema, table)
        found = [(self.of(place), place)]
        if place.rows_topic:
            beside = replace(self, routes=tuple(route.beside for route in self.routes))
            found.append((beside.of(place.beside), place.beside))
        return found

    @property
    def registered(self) -> bool:
        """Whether a registry has the schemas."""
        return self.format != "json"

    @property
    def is_binary(self) -> bool:
        """Whether numbers are not written with their digits."""
        return self.format in ("avro", "protobuf")

    @property
    def wrapped(self) -> bool:
        """Whether each record has its schema in front of it."""
        return self.schemas and not self.registered

    @property
    def has_events(self) -> bool:
        """Whether values are events as Debezium has them, which say where they stand. Of others a
        header does."""
        return self.content == "event"

    @property
    def has_rows(self) -> bool:
        """Whether values are rows alone."""
        return self.content == "row"

    @property
    def left_out(self) -> frozenset[str]:
        """The operations of which there are no records: a row cannot say that all are gone."""
        if not self.has_rows:
            return self.skipped
        return self.skipped | {TRUNCATE} | ({DELETE} if self.deletes == "drop" else frozenset())

    @property
    def has_tombstones(self) -> bool:
        """Whether a delete has a tombstone."""
        if not self.has_rows:
            return self.tombstones
        return self.deletes in ("tombstone", "rewrite-with-tombstone")

    @property
    def rewrites_deletes(self) -> bool:
        """Whether the row of a delete is there, marked."""
        return self.deletes in ("rewrite", "rewrite-with-tombstone")

    @property
    def recorded(self) -> dict[str, Any]:
        """What makes this form another one than ours, by Debezium's names; empty for ours."""
        return {
            name: value
            for name, field in NAMES.items()
            if (value := getattr(self, field)) != getattr(OURS, field)
        }

    @property
    def has_our_values(self) -> bool:
        """Whether values are written as in our form."""
        return replace(self, schemas=False).recorded.keys() <= {"unavailable.value.placeholder"}

    def as_recorded(self, recorded: Mapping[str, Any]) -> Form:
        """The form of a topic that was begun as ``recorded`` says, with this one's operations.

        Raises ``ValueError`` for a mode that is not known: a later version began the topic.
        """
        given = {}
        for name, value in recorded.items():
            if name not in NAMES or value not in accepted(name, value):
                raise ValueError(f"{name} = {value!r} is not known")
            given[NAMES[name]] = value
        kept = {name: getattr(self, name) for name in ("skipped", "tombstones", "routes")}
        return replace(OURS, **kept, **given)


NAMES: Final = {
    **CONTENT_NAMES,
    "format": "format",
    "schemas": "schemas",
    "time.precision.mode": "times",
    "decimal.handling.mode": "decimals",
    "binary.handling.mode": "binaries",
    "interval.handling.mode": "intervals",
    "hstore.handling.mode": "hstores",
    "unavailable.value.placeholder": "placeholder",
}
"""Debezium's name of each mode that is part of a topic's form, and its field."""
OURS: Final = Form()
"""The form without ``[events]``."""
DEBEZIUM: Final = Form(
    schemas=True,
    times="adaptive",
    decimals="precise",
    binaries="bytes",
    intervals="numeric",
    skipped=frozenset("t"),
)
"""The form of a Debezium connector without settings."""
_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "content": get_args(Content),
    "delete.tombstone.handling.mode": get_args(Deletes),
    "format": get_args(Format),
    "schemas": (False, True),
    "time.precision.mode": get_args(Times),
    "decimal.handling.mode": get_args(Decimals),
    "binary.handling.mode": get_args(Binaries),
    "interval.handling.mode": get_args(Intervals),
    "hstore.handling.mode": get_args(Hstores),
}


def accepted(name: str, given: Any) -> tuple[Any, ...]:
    """The values that a mode may have; of one that takes any text, what was given."""
    return _VALUES.get(name, (given,) if isinstance(given, str) else ())


def told(recorded: Mapping[str, Any]) -> str:
    """A recorded form as lines of ``[events]``, for messages."""
    if not recorded:
        return "the default form"
    return ", ".join(f"{name} = {_toml(value)}" for name, value in recorded.items())


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
