"""Snapshot rows to Kafka: ``op: r`` at position ``(L, 0)``.

Marked as Debezium marks them: the first row of all, the first and the last of each table, the
last of all. Whether a row is a last one shows only when the next comes or none does, so one row
is always held back. Rows that go to dead letters are none of these: who waits for the last row of a
topic finds it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cdc.columnar.flat_snapshot import FlatSnapshotEncoder
from cdc.columnar.formats.snapshot import RowsEncoder, snapshot_encoder
from cdc.columnar.snapshot_partitions import SnapshotPartitions
from cdc.events.change_encoder import change_encoder, content_headers
from cdc.events.codes import TRUNCATE, quoted
from cdc.events.envelope import SourceContext, Transaction, clock
from cdc.events.form import Form
from cdc.events.formats.packing import table_packing
from cdc.events.records import POSITION_HEADER, Header, schema_record
from cdc.kafka.bulk_producer import ANY_PARTITION, BulkProducer
from cdc.lsn import Position
from cdc.protocol.relation import Relation
from cdc.topics import schemas_topic
from snapshots.oversized_rows import Letters
from snapshots.table_reader import Block

_CLEARING_ORDINAL: Final = 0
"""As of a row: capture, which may be at work in the same topic, takes it for none of its events."""


class _Held(NamedTuple):
    """A row that waits to be known as the last of its table, or not."""

    topic: str
    encoder: RowsEncoder
    key: bytes | None
    value: bytes
    timestamp_ms: int
    marker: str
    """What it is if it is not a last one."""
    partition: int
    headers: list[Header] | None


class _TopicPublisher:
    """``start`` once for each table. ``letters`` takes the rows that are too large; without it they
    are an error. ``rows`` counts the others. Whoever publishes flushes the producer."""

    def __init__(self, producer: BulkProducer, lsn: int, letters: Letters | None) -> None:
        self.rows = 0
        self._letters = letters
        self._producer = producer
        self._lsn = lsn
        self._topic = ""
        self._encoder: RowsEncoder | None = None
        self._headers: list[Header] | None = None
        self._timestamp_ms = 0
        self._next_marker = "first"
        self._held: _Held | None = None
        self._parts: SnapshotPartitions | None = None

    def start(self, relation: Relation, context: SourceContext, topic: str, now_us: int) -> None:
        """The rows that follow are this table's; ``context`` is the topic's."""
        self._topic = topic
        self._headers = headers_at(self._lsn, context.form)
        self._encoder = snapshot_encoder(relation, context, self._lsn, now_us)
        parts = SnapshotPartitions(relation, context)
        self._parts = parts if parts else None
        self._timestamp_ms = now_us // 1000
        if self._next_marker != "first":
            self._next_marker = "first_in_data_collection"

    def publish(self, block: Block) -> bool:
        """Hand rows to the producer, all but the last; waits while the producer has no room.
        Whether there were any, and the row that was held back before is handed over."""
        keys, values = self._events(block)
        if not values:
            return False
        assert self._encoder is not None, "start comes first"
        self.let_go()
        at = self._placed(keys)
        if self._next_marker != "true" and len(values) > 1:
            marker, self._next_marker = self._next_marker, "true"
            first, headers = self._encoder.marked(values[0], marker), self._marked(marker)
            where = at if isinstance(at, int) else at[0]
            self._send(self._topic, keys[:1], [first], self._timestamp_ms, where, headers)
            keys, values = keys[1:], values[1:]
            at = at if isinstance(at, int) else at[1:]
        self._held = _Held(
            self._topic,
            self._encoder,
            keys[-1],
            values.pop(),
            self._timestamp_ms,
            self._next_marker,
            at if isinstance(at, int) else at[-1],
            self._headers,
        )
        self._next_marker = "true"
        at = at if isinstance(at, int) else at[:-1]
        headers = self._marked("true")
        self._send(self._topic, keys[:-1], values, self._timestamp_ms, at, headers)
        return True

    def publish_unmarked(self, block: Block) -> None:
        """Hand all rows to the producer, none of them marked as first or last: the order in which
        several workers read says nothing."""
        keys, values = self._events(block)
        if values:
            at = self._placed(keys)
            headers = self._marked("true")
            self._send(self._topic, keys, values, self._timestamp_ms, at, headers)

    def let_go(self, *, ended: bool = False) -> None:
        """Hand over the row that was held back: others follow, of another table if that one's have
        ``ended``."""
        changed = self._held is not None and self._held.encoder is not self._encoder
        self._release("last_in_data_collection" if ended or changed else "")

    def release(self) -> None:
        """Hand over the row that was held back: it is the last one of all."""
        self._release("last")

    def _events(self, block: Block) -> tuple[Sequence[bytes | None], list[bytes]]:
        """Keys and values of the rows that a record can hold."""
        if not block.rows:
            return [], []
        assert self._encoder is not None, "start comes first"
        keys, values = self._encoder.encode(*block)
        if self._parts is not None:
            self._parts.take(*block, keys, self._producer.count(self._topic))
        if self._letters is None:
            return keys, values
        at = Position(self._lsn, 0)
        return self._letters.sift(self._topic, keys, values, at, self._marked("true") or ())

    def _marked(self, marker: str) -> list[Header] | None:
        """The headers of a row that is marked so."""
        assert self._encoder is not None, "start comes first"
        return _with_added(self._encoder, marker, self._headers)

    def _release(self, marker: str) -> None:
        """Send the row that was held back, as ``marker`` or as what it is otherwise."""
        held = self._held
        if held is None:
            return
        self._held = None
        if held.marker == "first" and marker != "last":
            marker = "first"
        marker = marker or held.marker
        value = held.encoder.marked(held.value, marker)
        at, headers = held.partition, _with_added(held.encoder, marker, held.headers)
        self._send(held.topic, [held.key], [value], held.timestamp_ms, at, headers)

    def _placed(self, keys: Sequence[bytes | None]) -> int | Sequence[int]:
        """The partition of all rows or of each: of those without a key, which keep their order as
        they do in the stream, and where the route names columns that choose it."""
        if keys[0] is None:
            return 0
        return ANY_PARTITION if self._parts is None else self._parts.of(keys)

    def _send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        timestamp_ms: int,
        at: int | Sequence[int],
        headers: list[Header] | None,
    ) -> None:
        self.rows += len(values)
        self._producer.send(topic, keys, values, timestamp_ms, at, headers)


class SnapshotPublisher:
    """Publishes the tables of one snapshot, one after the other.

    ``lsn`` is the consistent point L. Records carry the time of their table's ``start_table`` as
    Kafka timestamp. Nothing is durable before ``finish`` has returned. ``letters`` takes the rows
    that are too large; without it they are an error.
    """

    def __init__(
        self,
        producer: BulkProducer,
        context: SourceContext,
        lsn: int,
        letters: Letters | None = None,
    ) -> None:
        self._letters = letters
        self._producer = producer
        self._context = context
        self._lsn = lsn
        self._main = _TopicPublisher(producer, lsn, letters)
        self._beside = _TopicPublisher(producer, lsn, letters.of_other_topic() if letters else None)
        self._has_rows = False

    @property
    def rows(self) -> int:
        """How many rows went to the tables' topics."""
        return self._main.rows

    def start_table(self, relation: Relation, topic: str, now_us: int) -> None:
        """The rows that follow are this table's. Its description goes to ``__schemas`` first. Where
        ``topic`` is the table's own, and it has one of rows beside it, both get them."""
        (context, place), *beside = self._context.outputs(relation)
        self._main.start(relation, context, topic, now_us)
        self._has_rows = bool(beside) and topic == place.topic
        if self._has_rows:
            ((rows, at),) = beside
            self._beside.start(relation, rows, at.topic, now_us)
        else:
            self._beside.let_go(ended=True)
        self.describe(relation, now_us)

    def describe(self, relation: Relation, now_us: int) -> None:
        """Publish the table's description alone."""
        record = schema_record(relation, self._lsn)
        self._producer.send(
            schemas_topic(self._context.name), [record["key"]], [record["value"]], now_us // 1000
        )

    @property
    def dead_letters(self) -> int:
        """How many rows were too large, and are in Kafka as dead letters."""
        return self._letters.count if self._letters else 0

    def flush(self) -> None:
        """Wait until Kafka has acknowledged all but a row that is held back."""
        self._producer.flush()

    def clear(self, relation: Relation, topic: str, partitions: int, now_us: int) -> None:
        """Truncate the topic's table as of just below L, in every partition.

        For a topic that holds events of an earlier snapshot whose slot is gone: rows deleted
        since then have no event of their own. All positions there are lower, as LSNs are 8-byte
        aligned, and the snapshot's rows at ``(L, 0)`` are higher. Where truncates are skipped there
        is none: consumers that take none keep such rows until they are emptied.
        """
        context, _ = self._context.outputs(relation)[0]
        form = context.form
        if TRUNCATE in form.left_out:
            return
        encoder = change_encoder(relation, context)
        encoder.begin(Transaction(self._lsn - 1, now_us, None, None))
        value = encoder.value(
            b"null", b"null", quoted(TRUNCATE), self._lsn - 1, _CLEARING_ORDINAL, clock(now_us)
        )
        packing = table_packing(relation, context.name, form, context.registry)
        if packing is not None:
            value = packing.value(value)
        for partition in range(partitions):
            headers = headers_at(self._lsn - 1, form)
            self._producer.send(topic, [None], [value], now_us // 1000, partition, headers)

    def publish(self, block: Block) -> None:
        """Hand rows to the producer, all but the last; waits while the producer has no room. A row
        is held back in both topics or in none: what is behind it tells that it is handed over."""
        handed_over = self._main.publish(block)
        if self._has_rows and not self._beside.publish(block) and handed_over:
            self._beside.let_go()

    def publish_unmarked(self, block: Block) -> None:
        """Hand all rows to the producer, none of them marked as first or last: the order in which
        several workers read says nothing."""
        self._main.publish_unmarked(block)
        if self._has_rows:
            self._beside.publish_unmarked(block)

    def finish(self) -> None:
        """Publish the last row and wait until Kafka has acknowledged everything."""
        self._main.release()
        self._beside.release()
        self._producer.flush()


def _with_added(
    encoder: RowsEncoder, marker: str, headers: list[Header] | None
) -> list[Header] | None:
    """With those that ``add.headers`` asks for."""
    added = encoder.headers[marker] if isinstance(encoder, FlatSnapshotEncoder) else []
    return [*added, *(headers or [])] if added else headers


def headers_at(lsn: int, form: Form) -> list[Header] | None:
    """Of records whose values do not say where they stand."""
    if form.has_events:
        return None
    return [*content_headers(form), (POSITION_HEADER, Position(lsn, 0).hex().encode())]
