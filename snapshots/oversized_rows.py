"""Rows that are too large for Kafka, with ``capture.oversized = "dead_letter"``.

They go to the stream's own topic of dead letters, as the stream writes them: in pieces, with the
position ``(L, 0)`` and the topic that the row was meant for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy

from cdc.events.capture_dead_letters import DeadLetters
from cdc.events.records import Header, Record
from cdc.kafka.bulk_producer import BulkProducer
from cdc.lsn import Position

Turn = Callable[[], AbstractContextManager[object]]


class Letters:
    """Takes out of blocks what no record can hold. ``count`` is how many rows that were so far.

    ``turn`` is held while a row's pieces go to Kafka: those of a table without a key say nothing
    by which they could be told from another worker's.
    """

    def __init__(self, source: str, producer: BulkProducer, turn: Turn = nullcontext) -> None:
        self.count = 0
        self._producer = producer
        self._cut = DeadLetters(source, producer.largest_record, lambda *_: None)
        self._turn = turn

    def of_other_topic(self) -> Letters:
        """The same for another topic of the same rows, with a count of its own."""
        other = copy(self)
        other.count = 0
        return other

    def sift(
        self,
        topic: str,
        keys: list[bytes] | list[None],
        values: list[bytes],
        position: Position,
        headers: Sequence[Header] = (),
    ) -> tuple[Sequence[bytes | None], list[bytes]]:
        """Keys and values of the rows that fit; the others are in Kafka when it returns."""
        # What is cut is mostly value (``DeadLetters.takes``): a block without a large one is whole.
        if max(map(len, values), default=0) <= self._cut.limit // 2:
            return keys, values
        fitting: tuple[list[bytes | None], list[bytes]] = [], []
        for key, value in zip(keys, values, strict=True):
            record: Record = {"key": key, "value": value, "headers": [*headers]}
            if self._cut.takes(record):
                self._send(topic, record, position)
            else:
                fitting[0].append(key)
                fitting[1].append(value)
        return fitting

    def _send(self, topic: str, record: Record, position: Position) -> None:
        pieces = self._cut.pieces(topic, record, position)
        with self._turn():
            self._producer.send_records(self._cut.topic, pieces)
            self._producer.flush()
        self.count += 1
