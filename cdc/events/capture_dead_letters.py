"""Records too large for Kafka: in pieces in ``<source>.__dead_letters``, and whole again. Pure.

With ``oversized = "dead_letter"`` a record above the producer's limit is cut; later events of its
key still flow, and no byte of it is lost. Pieces follow each other in the topic's only partition,
each with the record's position in a header. A record of which pieces are missing after a restart is
written again from its first one: what is formed anew has other bytes (its clock, ``sequence``).
Rows of snapshots stand there too, at their ``(L, 0)``, between those of the stream.

A key or headers that take more than half of the limit do not fit beside a piece: then the pieces
are those of the whole record (``_framed``), and their header ``sha256`` stands for its key.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

from cdc.errors import LogError
from cdc.events.records import POSITION_HEADER, Header, Record, weight
from cdc.lsn import Position, parse_position
from cdc.topics import dead_letters_topic

PART_HEADER: Final = "part"
"""``i/n``, from 1."""
_PART: Final = re.compile(rb"(\d{1,9})/(\d{1,9})")
_ROOM: Final = 1_000
"""For the pieces' own headers but for what the record brings."""
_ORIGINAL: Final = "header."
"""Goes before the names of the record's own headers."""
_DIGEST: Final = "sha256"
"""Of the key, in hex. A piece that has it is one of a framed record."""


class Piece(Protocol):
    """A record as it is read back."""

    @property
    def timestamp_ms(self) -> int: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class DeadLetter(NamedTuple):
    """A record as it was meant for ``topic``. ``missing`` counts pieces that the topic no longer
    has; the value is whole only without any."""

    topic: str
    key: bytes | None
    value: bytes
    headers: list[Header]
    position: Position
    timestamp_ms: int
    cause: str
    missing: int = 0
    tombstone: bool = False
    """Whether the record had no value; only one whose key or headers are too large is cut."""


class DeadLetters:
    """Cuts what is larger than ``limit`` bytes. ``report`` hears of each before it is handed over:
    topic, position, size. Without ``rows`` only logical messages are cut: any role of the source
    may write those, so none may end capture."""

    def __init__(
        self,
        source: str,
        limit: int,
        report: Callable[[str, Position, int], None],
        rows: bool = True,
    ) -> None:
        self.topic = dead_letters_topic(source)
        self.limit = limit
        self.rows = rows
        self._report = report

    def takes(self, record: Record) -> bool:
        """Whether the record is too large."""
        return weight(record) > self.limit

    def pieces(self, topic: str, record: Record, position: Position) -> list[Record]:
        """The record as pieces for ``self.topic``."""
        value = record["value"] or b""
        size = weight(record)
        self._report(topic, position, size)
        cause = f"{size} bytes, above the limit of {self.limit}".encode()
        told: list[Header] = [("topic", topic.encode()), ("cause", cause)]
        beside = size - len(value)
        if beside > self.limit // 2:
            value = _framed(record)
            told.append((_DIGEST, sha256(record["key"] or b"").hexdigest().encode()))
        else:
            if record["key"] is not None:
                told.append(("key", record["key"]))
            told += [(_ORIGINAL + name, text) for name, text in record.get("headers", [])]
        told.append((POSITION_HEADER, position.hex().encode()))
        beside = sum(len(name) + len(text or b"") + 10 for name, text in told)
        step = max(1, self.limit - beside - _ROOM)
        count = max(1, -(-len(value) // step))
        return [
            {
                "key": None,
                "value": value[at * step : (at + 1) * step],
                "partition": 0,
                "headers": [*told, (PART_HEADER, b"%d/%d" % (at + 1, count))],
            }
            for at in range(count)
        ]


def _framed(record: Record) -> bytes:
    """Key and headers as one line of JSON, a line feed, and the value."""
    key, value = record["key"], record["value"]
    head = {
        "key": None if key is None else b64encode(key).decode(),
        "headers": [
            [name, None if text is None else b64encode(text).decode()]
            for name, text in record.get("headers", [])
        ],
        "tombstone": value is None,
    }
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + (value or b"")


def _unframed(letter: DeadLetter) -> DeadLetter:
    """A whole letter whose pieces were those of a framed record."""
    line, _, value = letter.value.partition(b"\n")
    head: dict[str, Any] = json.loads(line)
    key = None if head["key"] is None else b64decode(head["key"])
    headers = [(name, None if text is None else b64decode(text)) for name, text in head["headers"]]
    return letter._replace(key=key, value=value, headers=headers, tombstone=head["tombstone"])


def unfinished(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    """Whether a record is a piece with others to follow. An emitted event, which may bring a header
    of that name, has an ``id``."""
    told = dict(headers)
    part = _PART.fullmatch(told.get(PART_HEADER) or b"")
    return part is not None and "id" not in told and int(part[1]) < int(part[2])


def meant_for(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """The topic that a piece's record was meant for."""
    return (dict(headers).get("topic") or b"").decode()


def whole(pieces: Iterable[Piece]) -> Iterator[DeadLetter]:
    """The records that were cut, as they become whole, and then those that lack their last piece.

    Those of one record follow each other, those of another may come between them: they are told
    apart by position, topic and key. Raises ``LogError`` for what is no piece.
    """
    begun: dict[tuple[Position, str, bytes | None], DeadLetter] = {}
    for piece in pieces:
        told = {name: text for name, text in piece.headers if text is not None}
        try:
            number, count = map(int, told[PART_HEADER].split(b"/"))
            position, topic = parse_position(told[POSITION_HEADER]), told["topic"].decode()
        except (KeyError, ValueError):
            raise LogError(
                "the topic of dead letters holds a record that is not a dead letter"
            ) from None
        of = position, topic, told.get("key", told.get(_DIGEST))
        letter = begun.pop(of, None)
        if letter is None or number == 1:  # a restart began it again
            own = [(n[len(_ORIGINAL) :], t) for n, t in piece.headers if n.startswith(_ORIGINAL)]
            cause = told.get("cause", b"").decode()
            letter = DeadLetter(
                topic, told.get("key"), b"", own, position, piece.timestamp_ms, cause, count
            )
        value = letter.value + (piece.value or b"")
        begun[of] = letter._replace(value=value, missing=letter.missing - 1)
        if number == count:
            done = begun.pop(of)
            yield _unframed(done) if _DIGEST in told and not done.missing else done
    yield from begun.values()
