"""Whole records in the default form: key and value, as ``docs/events.md`` has them. Pure.

Numbers keep their digits; JSON is written anew, with the fields in their order. A record that is
no event, or has a value that is not of the form, is given in a way that no reader takes for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

from cdc.events.codes import PLACEHOLDER
from cdc.events.form import Form
from cdc.events.readers.columns import ColumnKind, Digits, Reader, may_be_null, nothing, reader

UNREADABLE: Final = b"!"
"""How the value of a record begins that could not be read: no JSON begins so."""
_SCHEMA, _PAYLOAD = b'{"schema":', b',"payload":'
_MINUS_ZERO: Final = b"-0"
FAULTS: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)

Raw = tuple[bytes | None, bytes | None, int]
"""A record: key, value, which is None for a tombstone, and offset."""
Decode = Callable[[bytes], dict[str, Any]]
"""From a key or a value to the object that it is, without a schema. Raises one of ``FAULTS``."""
Columns = Mapping[str, ColumnKind]
"""The columns of a version of a table, by the names that events of it have."""


class EventReader(Protocol):
    """Brings the records of topics into the default form. It can be pickled."""

    epoch: int
    """How often it was told something by ``know`` that changes what it reads."""

    def know(self, snapshots: Mapping[str, tuple[int, str]]) -> None:
        """The LSN and the snapshot that each topic's mirror was filled from."""
        ...

    def raw(self, topic: str, records: Iterable[Raw]) -> list[Raw]:
        """The same records, of one topic, in the default form; tombstones as they are. Raises
        ``RetryableError`` for an event of a table version that is not described yet."""
        ...

    def for_tasks(self) -> Self:
        """One that asks nobody: it knows what is described by now."""
        ...


class UnknownVersionError(Exception):
    """An event is of a table version that was not described yet."""

    def __init__(self, schema_id: str) -> None:
        super().__init__(schema_id)
        self.schema_id = schema_id


class RecordReader:
    """Reads the records of one form. ``columns_of`` gives those of a ``schema_id``, None where it
    is not known; ``decode`` tells what a key or a value says."""

    def __init__(
        self, form: Form, columns_of: Callable[[str], Columns | None], decode: Decode | None = None
    ) -> None:
        self._form, self._columns_of, self._decode = form, columns_of, decode or payload
        self._versions: dict[str, Version] = {}

    def record(self, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Key and value in the default form; of a tombstone, whose key nobody asks for, as they
        are. Raises ``UnknownVersionError``."""
        if value is None:
            return key, None
        try:
            event = self._decode(value)
            source = event["source"]
            version = self._of(source["schema_id"])
            unchanged = source.get("unchanged") or ()
            if (before := event["before"]) is not None:
                event["before"] = version.row(before, unchanged)
            if (after := event["after"]) is not None:
                version.refuse_lost(after, unchanged)
                event["after"] = own = version.row(after, unchanged)
                if PLACEHOLDER in own.values():  # it may be a text that was written
                    source["unchanged"] = list(unchanged)
            own_key = None if key is None else dumped(version.row(self._decode(key), ()))
            return own_key, dumped(event)
        except FAULTS:
            return key, UNREADABLE + value

    def key(self, key: bytes, schema_id: str) -> bytes:
        """A key alone. Raises ``UnknownVersionError``, ``ValueError`` for what is none."""
        version = self._of(schema_id)
        try:
            return dumped(version.row(self._decode(key), ()))
        except FAULTS:
            raise ValueError("the record's key is not of its table") from None

    def _of(self, schema_id: str) -> Version:
        found = self._versions.get(schema_id)
        if found is None:
            if (columns := self._columns_of(schema_id)) is None:
                raise UnknownVersionError(schema_id)
            found = self._versions[schema_id] = version_of(self._form, columns)
        return found


class Version(NamedTuple):
    """``readers`` of the columns that need one; in ``required`` null stands for what is lost."""

    readers: Mapping[str, Reader]
    required: Sequence[str]

    def row(self, image: Mapping[str, Any], unchanged: Sequence[str]) -> dict[str, Any]:
        made = dict(image)
        for name, read in self.readers.items():
            if (value := made.get(name)) is not None and name not in unchanged:
                made[name] = read(value)
        for name in unchanged:
            made[name] = PLACEHOLDER
        return made

    def refuse_lost(self, image: Mapping[str, Any], unchanged: Sequence[str]) -> None:
        for name in self.required:
            if image.get(name) is None and name not in unchanged:
                raise ValueError("a value that the form cannot have")


def version_of(form: Form, columns: Columns, lost: Iterable[str] = ()) -> Version:
    """Of ``lost`` columns, which nobody reads, there are no values."""
    made = {name: reader(form, kind) for name, kind in columns.items()}
    made |= dict.fromkeys(columns.keys() & set(lost), nothing)
    return Version(
        {name: one for name, one in made.items() if one is not None},
        [name for name, one in columns.items() if not one.nullable and may_be_null(form, one)],
    )


def payload(data: bytes) -> dict[str, Any]:
    """The object that a key or a value is, without the schema it may stand beside."""
    data = _payload(data)
    parse_int = _integer if _MINUS_ZERO in data else None
    found = json.loads(data, parse_float=Digits, parse_int=parse_int)
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    return found


def _integer(text: str) -> float:
    """A float's -0 would lose its sign."""
    return Digits(text) if text == "-0" else int(text)


def _payload(data: bytes) -> bytes:
    """No key of a schema is called payload: where the first one of that name begins, it ends."""
    if not data.startswith(_SCHEMA):
        return data
    at = data.find(_PAYLOAD)
    return data if at < 0 else data[at + len(_PAYLOAD) : -1]


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
