"""Events that a view could not apply, and those behind them: the topic ``<view>.dlq``. Pure.

The topic is compacted. A letter's key there is ``<generation>/<topic>-<partition>-<offset>``: the
checkpoint (a UUID) of the view's generation that could not apply the event, and where that stands.
Its value is the event's, byte for byte; headers say the rest. A tombstone of that key says that
the letter is settled. So a letter that is written twice is one, and what is open is a fold of the
topic. Letters of one key of the source are in the order of its events.

A view over several tables may fail at a row of its own, which no single event is to blame for. That
row's letter has partition -1, the view's name for a topic, and the row's key for its key and value,
as a JSON object of texts. No order hangs on it: the row is made anew when something of it changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cdc.errors import LogError
from cdc.events.records import POSITION_HEADER, Header, Record, Written
from cdc.lsn import Position, parse_position

BEHIND: Final = "another event of its key could not be applied"
"""What is said of a letter without a cause of its own."""
_OF_A_ROW: Final = -1
_EVENT: Final = "event_ms"


class Owner(NamedTuple):
    """Whose events wait for each other: a row of a table, by its topic and its key there."""

    topic: str
    key: bytes


class Letter(NamedTuple):
    """An event and why it waits; ``cause`` is empty for one behind another. ``position`` is None of
    what is no event. Times are in milliseconds since 1970: when Kafka had it, and when it was put
    aside. ``value`` is left out where only ``size``, in bytes, is wanted."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    size: int
    position: Position | None
    timestamp_ms: int
    parked_ms: int
    cause: str

    @property
    def id(self) -> str:
        """Where the event stands, as errors say it."""
        if self.is_row:
            return f"{self.topic}-row-{hashlib.sha256(self.key or b'').hexdigest()[:16]}"
        return f"{self.topic}-{self.partition}-{self.offset}"

    @property
    def is_row(self) -> bool:
        """Whether it is of a row of the view, no event."""
        return self.partition == _OF_A_ROW

    @property
    def owner(self) -> Owner | None:
        """None of what has no key."""
        return None if self.key is None else Owner(self.topic, self.key)


def row_letter(
    view: str, key: bytes, position: Position, timestamp_ms: int, parked_ms: int, cause: str
) -> Letter:
    """Of a row of the view; ``position`` is what its next state would have stood at."""
    size = len(key)
    return Letter(view, _OF_A_ROW, 0, key, key, size, position, timestamp_ms, parked_ms, cause)


class Fate(NamedTuple):
    """What an event is, as far as it matters here. ``op`` is empty of what is none."""

    op: str
    position: Position | None


def fate(value: bytes) -> Fate:
    """Of an event's value."""
    try:
        event = json.loads(value)
        source = event["source"]
        return Fate(str(event["op"]), Position(int(source["commit_lsn"]), int(source["ordinal"])))
    except (ValueError, TypeError, KeyError, RecursionError):
        return Fate("", None)


def spelled(key: bytes) -> tuple[str, ...]:
    """The names of a key's columns, as an event has them; none for what is no event's key."""
    try:
        values = json.loads(key)
    except (ValueError, RecursionError):
        return ()
    return tuple(values) if isinstance(values, dict) else ()


@dataclass(slots=True)
class Letters:
    """Those of one generation: the open ones by id, in the order of the topic, and the ids of those
    that are settled, as long as Kafka remembers."""

    open: dict[str, Letter] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)

    @property
    def keys(self) -> dict[Owner, list[Letter]]:
        """The parked keys, each with its letters, the oldest key first."""
        found: dict[Owner, list[Letter]] = {}
        for letter in self.open.values():
            if letter.owner is not None and not letter.is_row:
                found.setdefault(letter.owner, []).append(letter)
        return found

    @property
    def rows(self) -> dict[bytes, Letter]:
        """Rows of the view that could not be made or stored, by their keys."""
        return {one.key: one for one in self.open.values() if one.is_row and one.key is not None}

    @property
    def keyless(self) -> list[Letter]:
        """Records without a key: nothing waits behind them."""
        return [letter for letter in self.open.values() if letter.key is None]

    @property
    def parked(self) -> int:
        """How many keys are parked, of tables and of the view, and records without one."""
        return len(self.keys) + len(self.rows) + len(self.keyless)

    def add(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            self.open[letter.id] = letter._replace(value=b"")
            self.settled.discard(letter.id)

    def settle(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            self.open.pop(id_, None)
            self.settled.add(id_)


def letter_record(generation: str, letter: Letter) -> Record:
    """A letter as it is written."""
    headers: list[Header] = [
        ("topic", letter.topic.encode()),
        ("partition", b"%d" % letter.partition),
        ("offset", b"%d" % letter.offset),
        (_EVENT, b"%d" % letter.timestamp_ms),
        ("parked_ms", b"%d" % letter.parked_ms),
        ("cause", letter.cause.encode()),
    ]
    if letter.key is not None:
        headers.append(("key", letter.key))
    if letter.position is not None:
        headers.append((POSITION_HEADER, letter.position.hex().encode()))
    return {
        "key": f"{generation}/{letter.id}".encode(),
        "value": letter.value,
        "partition": 0,
        "headers": headers,
    }


def settled_record(generation: str, id_: str) -> Record:
    """What settles a letter."""
    key = f"{generation}/{id_}".encode()
    return {"key": key, "value": None, "partition": 0}


def by_generation(records: Iterable[Written], values: bool = False) -> dict[str, Letters]:
    """What the topic says of each generation. Raises ``LogError`` for what is no letter."""
    found: dict[str, Letters] = {}
    for record in records:
        generation, separator, id_ = (record.key or b"").decode(errors="replace").partition("/")
        if not separator:
            raise _foreign()
        of = found.setdefault(generation, Letters())
        if record.value is None:
            of.settle([id_])
            continue
        told = {name: text for name, text in record.headers if text is not None}
        letter = _letter(told, record.value)
        of.add([letter])
        if values:
            of.open[letter.id] = letter
    return found


def _letter(told: Mapping[str, bytes], value: bytes) -> Letter:
    try:
        position = told.get(POSITION_HEADER)
        return Letter(
            told["topic"].decode(),
            int(told["partition"]),
            int(told["offset"]),
            told.get("key"),
            value,
            len(value),
            None if position is None else parse_position(position),
            int(told[_EVENT]),
            int(told["parked_ms"]),
            told["cause"].decode(),
        )
    except (KeyError, ValueError):
        raise _foreign() from None


def _foreign() -> LogError:
    return LogError(
        "a view's topic of dead letters holds a record that is not a dead letter",
        "find the other writer: only `headwater apply` may write to it",
    )
