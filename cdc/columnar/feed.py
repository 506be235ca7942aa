"""Frames to a ``Transcriber``: long plain stretches by column, all else frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from cdc.columnar.arrays import Ints, Mask
from cdc.columnar.blocks import LARGEST_BYTES, Events, block
from cdc.columnar.events import Rows, Stamps, TableEncoder, Transactions
from cdc.columnar.formats.avro_events import AvroStamps, AvroTableEncoder
from cdc.columnar.formats.packed_events import PackedTableEncoder
from cdc.columnar.frames import (
    BEGIN,
    COMMIT,
    DELETE,
    HEADER,
    UPDATE,
    Frames,
    begins,
    commits,
)
from cdc.columnar.keys import PartitionKeys
from cdc.columnar.tuples import read_columns
from cdc.errors import ProtocolError, SourceError
from cdc.events.captured_table import Table
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext, Transaction, clock
from cdc.events.keys.exactness import InexactKeyError
from cdc.events.records import Block
from cdc.events.transcriber_state import Standing
from cdc.lsn import format_lsn
from cdc.protocol.relation import Relation
from cdc.protocol.wire import Arrived

LEAST_FRAMES: Final = 200
"""A shorter stretch is faster frame by frame: calls of numpy and Arrow cost the same for few."""
MOST_BYTES: Final = 256 << 20
"""Arrow's offsets have 31 bits, and events are larger than their frames."""


Encoder = TableEncoder | AvroTableEncoder | PackedTableEncoder
"""Takes the stamps of its own format."""


class _Stretch(NamedTuple):
    """Rows of a stretch and the transactions they are of, the first one open before it."""

    rows: Ints
    transaction: Ints
    ordinal: Ints
    transactions: Transactions
    after: Standing
    committed_lsn: int | None


class ColumnarFeed:
    """Feeds one session's transcriber. ``partitions`` is a topic's number of them."""

    def __init__(
        self, transcriber: Transcriber, context: SourceContext, partitions: Callable[[str], int]
    ) -> None:
        self._transcriber = transcriber
        self._unheld = context.unheld
        self._waiting: list[tuple[str, str, int]] = []
        # What a stretch by column tells counts only if it goes through.
        wait = None if context.unheld is None else self._wait
        self._context = replace(context, unheld=wait)
        self._partitions = partitions
        self._closing = b""
        self._placeholder = context.form.placeholder.encode()
        self._is_avro = context.form.format == "avro"
        self._is_protobuf = context.form.format == "protobuf"
        self._by_row = not context.form.has_events
        self._encoders: dict[int, tuple[Relation, Encoder]] = {}
        self._parts: dict[int, PartitionKeys] = {}

    def feed(self, arrived: Arrived, now_us: int) -> None:
        """XLogData frames in order, seen at ``now_us``. Raises ``ProtocolError``, and
        ``SourceError`` for a key that the form does not hold."""
        try:
            self._feed(arrived, now_us)
        except InexactKeyError as error:
            at = format_lsn(self._transcriber.position.commit_lsn)
            message = f"{error.message}; it is in the transaction that commits at {at}"
            raise SourceError(message, error.hint) from error

    def _wait(self, table: str, column: str, count: int) -> None:
        self._waiting.append((table, column, count))

    def _feed(self, arrived: Arrived, now_us: int) -> None:
        transcriber = self._transcriber
        transcriber.clock(now_us)
        short = len(arrived) < LEAST_FRAMES or len(arrived.buffer) > MOST_BYTES
        if short or self._by_row or transcriber.replaying:
            for frame in arrived.between(0, len(arrived)):
                transcriber.feed(frame)
            return
        frames = Frames(arrived)
        self._closing = clock(now_us)
        # A value that looks like the placeholder makes an event say which ones are.
        plainly = self._placeholder not in frames.buffer
        for start, stop, plain in frames.stretches():
            long = plain and stop - start >= LEAST_FRAMES
            if long and plainly and self._by_column(arrived, frames, start, stop):
                continue
            for frame in arrived.between(start, stop):
                transcriber.feed(frame)

    def _by_column(self, arrived: Arrived, frames: Frames, start: int, stop: int) -> bool:
        """Whether the stretch went through; if not, nothing has happened. Rows of tables whose
        topics cannot be formed by column go one by one, each as the event that it is."""
        stretch = _stretch(frames, start, stop, self._transcriber.standing)
        if stretch is None:
            return False
        self._waiting.clear()
        try:
            blocks = self._blocks(frames, stretch)
        except ProtocolError:  # raised again, and said better, frame by frame
            return False
        if blocks is None:
            return False
        made, singly = blocks
        for row in singly.tolist():
            number = int(stretch.transaction[row])
            transaction = _transaction(stretch.transactions, number)
            self._transcriber.stand(transaction, int(stretch.ordinal[row]) - 1)
            self._transcriber.feed(arrived[int(stretch.rows[row])])
        self._transcriber.adopt(made, stretch.after, stretch.committed_lsn)
        if self._unheld is not None:
            for told in self._waiting:
                self._unheld(*told)
        return True

    def _blocks(
        self, frames: Frames, stretch: _Stretch
    ) -> tuple[list[tuple[str, Block]], Ints] | None:
        """By topic; and the rows, in order, that no block has."""
        singly = np.zeros(len(stretch.rows), dtype=bool)
        if not len(stretch.rows):
            return [], np.flatnonzero(singly)
        oids = frames.unsigned(frames.starts[stretch.rows] + HEADER + 1, 4)
        known = stretch.transactions
        stamps = (AvroStamps if self._is_avro else Stamps).of(known)
        made: dict[str, tuple[list[Events], list[bool]]] = {}
        found_oids, firsts = np.unique(oids, return_index=True)
        for oid in found_oids[np.argsort(firsts)].tolist():  # described in the order of the stream
            of_table = np.flatnonzero(oids == oid)
            first = int(stretch.transaction[of_table[0]])
            xid, commit_lsn = (int(of[first]) for of in (known.xid, known.commit_lsn))
            table = self._transcriber.table(oid, xid, commit_lsn)
            if table is None:
                return None
            if not table.by_column:
                singly[of_table] = True
                continue
            dead = frames.kinds[stretch.rows[of_table]] == DELETE
            topic = table.first.topic
            events, kinds = made.setdefault(topic, ([], []))  # several tables may share one
            for deletes in (False, True):
                at = of_table[dead == deletes]
                if not len(at):
                    continue
                found = self._events(frames, stretch, at, table, stamps, deletes)
                if found is None or found.largest_bytes > LARGEST_BYTES:
                    return None
                events.append(found)
                kinds.append(deletes)
        tombstones = self._context.form.tombstones
        blocks = [
            (topic, block(events, kinds, self._partitions(topic), tombstones=tombstones))
            for topic, (events, kinds) in made.items()
        ]
        return blocks, np.flatnonzero(singly)

    def _events(
        self,
        frames: Frames,
        stretch: _Stretch,
        at: Ints,
        table: Table,
        stamps: Any,
        deletes: bool,
    ) -> Events | None:
        chosen = stretch.rows[at]
        columns = read_columns(frames, chosen, table.width)
        if columns is None:
            return None
        if table.places is not None:
            columns = [columns[at] for at in table.places]
        rows = Rows(
            columns,
            deletes,
            frames.kinds[chosen] == UPDATE,
            stretch.transaction[at],
            frames.unsigned(frames.starts[chosen] + 1, 8),
            stretch.ordinal[at],
        )
        encoder = self._encoder(table)
        if encoder.refuses(rows):
            return None
        made = encoder.encode(rows, stamps, self._closing)
        if made is None:
            return None
        by = parts.of(columns, len(at)) if (parts := self._parts[table.relation.oid]) else None
        return Events(at, *made, by)

    def _encoder(self, table: Table) -> Encoder:
        relation, packing = table.relation, table.first.packing
        known = self._encoders.get(relation.oid)
        if known is None or known[0] is not relation:
            if self._is_avro and packing is not None:
                known = relation, AvroTableEncoder(relation, self._context, packing)
            elif self._is_protobuf and packing is not None:
                known = relation, PackedTableEncoder(relation, self._context, packing)
            else:
                known = relation, TableEncoder(relation, self._context, packing)
            self._encoders[relation.oid] = known
            self._parts[relation.oid] = PartitionKeys(relation, self._context)
        return known[1]


def _stretch(frames: Frames, start: int, stop: int, before: Standing) -> _Stretch | None:
    """None when begins, rows and commits do not follow each other as they must."""
    kinds = frames.kinds[start:stop]
    opens, closes = kinds == BEGIN, kinds == COMMIT
    is_open = (before.transaction is not None) + np.cumsum(opens.astype(int) - closes)
    if is_open.min() < 0 or is_open.max() > 1:
        return None
    at = np.flatnonzero(~(opens | closes))
    if not is_open[at].all():
        return None
    commit_lsns, ends = commits(frames, np.flatnonzero(closes) + start)
    transactions = _transactions(frames, opens, closes, start, before, ends)
    number = np.cumsum(opens)
    if (transactions.commit_lsn[number[closes]] != commit_lsns).any():
        return None
    transaction = number[at]
    ordinal = np.arange(1, len(at) + 1) - np.searchsorted(transaction, transaction)
    ordinal[transaction == 0] += before.ordinal
    last = int((transaction == number[-1]).sum()) + (before.ordinal if number[-1] == 0 else 0)
    newest = _transaction(transactions, len(transactions.commit_lsn) - 1)
    after = Standing(
        newest if is_open[-1] else None,
        newest.commit_lsn,
        last,
        int(ends[-1]) if len(ends) else before.previous_end,
    )
    return _Stretch(
        at + start, transaction, ordinal, transactions, after, int(ends[-1]) if len(ends) else None
    )


def _transactions(
    frames: Frames, opens: Mask, closes: Mask, start: int, before: Standing, ends: Ints
) -> Transactions:
    """The one open before (or a stand-in that no row is of), then each that begins."""
    at = np.flatnonzero(opens)
    begun = begins(frames, at + start)
    known = -1 if before.previous_end is None else before.previous_end
    first = before.transaction or Transaction(before.commit_lsn, 0, None, None)
    earlier = -1 if first.previous_end_lsn is None else first.previous_end_lsn
    previous = np.append(known, ends)[np.cumsum(closes)[at]]
    return Transactions(
        first,
        np.append(first.commit_lsn, begun.commit_lsn),
        np.append(first.commit_us, begun.commit_us),
        np.append(first.xid or 0, begun.xid),
        np.append(earlier, previous),
    )


def _transaction(transactions: Transactions, number: int) -> Transaction:
    """One of them, as a value."""
    if not number:
        return transactions.first
    lsn, us, xid, previous = (int(field[number]) for field in transactions[1:])
    return Transaction(lsn, us, xid, None if previous < 0 else previous)
