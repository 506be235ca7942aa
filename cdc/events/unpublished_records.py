"""Records on their way to the producer, without those that Kafka holds already. Pure."""

from __future__ import annotations

from typing import Final

from cdc.events.capture_dead_letters import DeadLetters
from cdc.events.records import POSITION_HEADER, Batch, Block, Record, Replay
from cdc.lsn import Position

_SMALL: Final = 1 << 17
"""Above what a record of a block weighs (``cdc.columnar.blocks``), its key and its names."""


class Outgoing:
    """What one session has made and not handed over yet."""

    def __init__(
        self,
        replay: Replay | None,
        letters: DeadLetters | None = None,
    ) -> None:
        self._replay = replay
        self._letters = letters
        self._batch = Batch()
        self._cut: tuple[str, Position] | None = None

    @property
    def replaying(self) -> bool:
        """Whether each record has to be looked at: it may be left out, or be cut."""
        letters = self._letters
        small = letters is not None and letters.rows and letters.limit < _SMALL
        return self._replay is not None or small

    def take(self) -> Batch:
        """Hand over what was collected since the last call."""
        batch, self._batch = self._batch, Batch()
        return batch

    def start(self, commit_lsn: int) -> None:
        """A transaction begins; from some one on, Kafka can hold nothing any more."""
        if self._replay is not None and self._replay.passed(Position(commit_lsn, 0)):
            self._replay = None

    def put(
        self,
        topic: str,
        record: Record,
        size: int,
        position: Position,
        positioned: bool = False,
        message: bool = False,
    ) -> None:
        """A record at a position, unless Kafka holds it, whole or cut; ``size`` in bytes.
        ``positioned``: its value does not say where it stands, so a header does. ``message``: it is
        of a logical message, which is cut whatever becomes of rows."""
        letters, replay, place = self._letters, self._replay, (topic, position)
        if positioned:
            record = _told(record, position)
        if letters is not None and not (letters.rows or message):
            letters = None
        if letters is not None and place == self._cut and letters.takes(record):
            record = {**record, "headers": []}  # a tombstone: its delete tells of the new key
            if letters.takes(record):
                return  # nothing that is no dead letter has this key
        if letters is None or not letters.takes(record):
            if place == self._cut:
                record = _told(record, position)
            elif letters is not None and replay is not None and replay.lettered(*place):
                self._cut = place
                return
            self._put(topic, record, size, position)
            return
        self._cut = place
        if replay is not None and (
            replay.holds(topic, record, position) or replay.lettered(*place)
        ):
            return
        for piece in letters.pieces(topic, record, position):  # anew if some were there
            self._batch.add(letters.topic, piece, len(piece["value"] or b""))

    def _put(self, topic: str, record: Record, size: int, position: Position) -> None:
        if self._replay is None or not self._replay.holds(topic, record, position):
            self._batch.add(topic, record, size)

    def add(self, topic: str, record: Record) -> None:
        """A record that has no place in the stream: it may stand twice."""
        self._batch.add(topic, record, 0)

    def add_block(self, topic: str, block: Block) -> None:
        """Records that Kafka cannot hold."""
        self._batch.add_block(topic, block)


def _told(record: Record, position: Position) -> Record:
    """The record with its position, unless it has that: also the tombstone of a delete that was
    cut, as nothing in its partition has its position."""
    headers = record.get("headers", [])
    if any(name == POSITION_HEADER for name, _ in headers):
        return record
    told = [*headers, (POSITION_HEADER, position.hex().encode())]
    return {**record, "headers": told}
