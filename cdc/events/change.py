"""Changes: what the messages of a session mean, as records for Kafka. Pure but for two questions
it asks of its owner: what a relation is (``Resolver``) and what a row holds now (``Lookup``).

    BEGIN ─▶ rows, truncates, messages ─▶ COMMIT      each event takes the next ordinal

| change                     | events                                                        |
|----------------------------|---------------------------------------------------------------|
| insert                     | c                                                             |
| update                     | u                                                             |
| update that moves the key  | d (old key), its tombstone, c (new key): two ordinals         |
| delete                     | d, its tombstone                                              |
| truncate                   | t to every partition of each table's topic                    |
| logical message            | m                                                             |
| ``headwater.emit``         | its payload, as it is, with its position in a header          |

A tombstone shares its delete's position. After a restart the server repeats what was not
confirmed; ``Replay`` (in ``cdc.capture.duplicate_filter``) says which records Kafka already holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from cdc.errors import ProtocolError
from cdc.events.capture_dead_letters import DeadLetters
from cdc.events.captured_table import Lookup, Resolver, Table, Tables
from cdc.events.codes import CREATE, DELETE, TRUNCATE, UPDATE, quoted
from cdc.events.envelope import NEW_KEY_HEADER, OLD_KEY_HEADER, SourceContext, Transaction, clock
from cdc.events.heartbeat import HEARTBEAT, Heartbeat, heartbeat
from cdc.events.logical_messages import Messages
from cdc.events.outbox import Outbox
from cdc.events.records import Batch, Block, Header, Record, Replay
from cdc.events.transactions import NO_BLOCK, Ledger
from cdc.events.transcriber_state import Standing
from cdc.events.unpublished_records import Outgoing
from cdc.lsn import Position, format_lsn
from cdc.protocol import messages
from cdc.protocol.messages import UNCHANGED, Image, Values, filled
from cdc.protocol.pgoutput import decode

_WAL_START: Final = Struct(">Q")
_HEADER: Final = 25  # bytes of an XLogData frame: kind, WAL start, WAL end, clock
_CREATE, _UPDATE, _DELETE, _TRUNCATE = map(quoted, (CREATE, UPDATE, DELETE, TRUNCATE))
_RARE: Final = frozenset({_TRUNCATE})  # no plain frame: each is looked at in any case


class Transcriber:
    """Frames of one replication session in, records out, in commit order.

    ``committed_lsn`` is the end of the last complete transaction, ``position`` that of the last
    event. The owner tells the time with ``clock`` once for each read of the connection.
    """

    def __init__(
        self,
        context: SourceContext,
        resolve: Resolver,
        lookup: Lookup,
        partitions: Callable[[str], int],
        committed_lsn: int,
        replay: Replay | None = None,
        outbox: Outbox | None = None,
        ledger: Ledger | None = None,
        letters: DeadLetters | None = None,
        nonce: str = "",
    ) -> None:
        self.committed_lsn = committed_lsn
        self.heartbeat: Heartbeat | None = None  # the newest of this run that came through
        self._nonce = nonce
        self._partitions = partitions
        self._out = Outgoing(replay, letters)
        self._positioned = not context.form.has_events
        self._ledger = ledger
        self._messages = Messages(context, partitions, outbox)
        self._tables = Tables(context, partitions, resolve, lookup, self._out)
        self._skipped = frozenset(map(quoted, context.form.left_out))
        self._closing = clock(0)
        self._now_us = 0
        self._transaction: Transaction | None = None
        self._commit_lsn = 0
        self._ordinal = 0
        self._previous_end: int | None = None

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    @property
    def position(self) -> Position:
        """The last event's, of this transaction or of the one before."""
        return Position(self._commit_lsn, self._ordinal)

    def take(self) -> Batch:
        """Hand over the records collected since the last call."""
        return self._out.take()

    @property
    def standing(self) -> Standing:
        """Where it is between two frames."""
        return Standing(self._transaction, self._commit_lsn, self._ordinal, self._previous_end)

    @property
    def replaying(self) -> bool:
        """Whether each event has to be looked at: it may be left out, or is counted."""
        return self._out.replaying or self._ledger is not None or not self._skipped <= _RARE

    def table(self, oid: int, xid: int, commit_lsn: int) -> Table | None:
        """A table that was described, and of which a row of this transaction is next."""
        return self._tables.described(oid, xid, commit_lsn)

    def adopt(
        self, blocks: Iterable[tuple[str, Block]], after: Standing, committed_lsn: int | None
    ) -> None:
        """Go on as if the frames that gave these blocks had been fed; see ``cdc.columnar``."""
        for topic, block in blocks:
            self._out.add_block(topic, block)
        self._transaction, self._commit_lsn, self._ordinal, self._previous_end = after
        if committed_lsn is not None:
            self.committed_lsn = committed_lsn

    def stand(self, transaction: Transaction, ordinal: int) -> None:
        """Be behind the event ``ordinal`` of a transaction; see ``cdc.columnar``."""
        self._transaction, self._commit_lsn, self._ordinal = (
            transaction,
            transaction.commit_lsn,
            ordinal,
        )

    def clock(self, now_us: int) -> None:
        """The time at which the frames that follow were seen."""
        self._now_us = now_us
        self._closing = clock(now_us)

    def feed(self, frame: bytes) -> None:
        """One XLogData frame. Raises ``ProtocolError``."""
        message = decode(frame, _HEADER)
        if type(message) is messages.Insert:
            table = self._table(message.relation_oid)
            rows, new = table.rows, table.received(message.new)
            (lsn,) = _WAL_START.unpack_from(frame, 1)
            after = rows.row(new)
            if rows.mark in after and UNCHANGED in new:
                new = self._completed(table, new)  # an update brought it into the filter
                after = rows.row(new)
            self._event(table, rows.key(new), b"null", after, _CREATE, lsn, new)
        else:
            self._other(message, _WAL_START.unpack_from(frame, 1)[0])

    def _other(self, message: messages.Message, lsn: int) -> None:
        match message:
            case messages.Update():
                self._update(message, lsn)
            case messages.Begin():
                self._begin(message)
            case messages.Commit():
                self._commit(message)
            case messages.Delete():
                table = self._table(message.relation_oid)
                old, rows = table.received(message.old), table.rows
                self._event(
                    table, rows.key(old), rows.row(old), b"null", _DELETE, lsn, [], None, old
                )
            case messages.RelationMessage():
                self._tables.announce(message, self._commit_lsn)
            case messages.Truncate():
                self._truncate(message, lsn)
            case messages.LogicalMessage():
                self._message(message, lsn)
            case messages.Origin():
                self._origin(message)
            case _:
                pass  # Type messages: types are taken from the catalog, with their structure

    def _begin(self, begin: messages.Begin) -> None:
        if self._transaction is not None:
            raise ProtocolError(f"BEGIN inside a transaction at {format_lsn(begin.commit_lsn)}")
        self._start(Transaction(begin.commit_lsn, begin.commit_us, begin.xid, self._previous_end))

    def _start(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._commit_lsn = transaction.commit_lsn
        self._ordinal = 0
        if self._ledger is not None:
            self._ledger.start(transaction)
        self._out.start(transaction.commit_lsn)

    def _commit(self, commit: messages.Commit) -> None:
        transaction = self._transaction
        if transaction is None or transaction.commit_lsn != commit.commit_lsn:
            raise ProtocolError(f"COMMIT without its BEGIN at {format_lsn(commit.commit_lsn)}")
        if (ledger := self._ledger) is not None and ledger.events:
            self._ordinal += 1
            self._put(ledger.topic, ledger.end(self.position))
        self._transaction = None
        self._previous_end = self.committed_lsn = commit.end_lsn

    def _origin(self, origin: messages.Origin) -> None:
        at = self._open("an origin")
        self._transaction = at._replace(origin=origin.name, origin_lsn=origin.lsn)

    def _open(self, what: str) -> Transaction:
        if self._transaction is None:
            raise ProtocolError(f"pgoutput: {what} outside of a transaction")
        return self._transaction

    def _table(self, oid: int) -> Table:
        return self._tables.ready(oid, self._open("a row"))

    def _event(
        self,
        table: Table,
        key: bytes | None,
        before: bytes,
        after: bytes,
        op: bytes,
        lsn: int,
        new: Values,
        header: Header | None = None,
        old: Values | None = None,
    ) -> None:
        """``new`` are the values of ``after``, empty without one, ``old`` those of ``before``."""
        if not (outputs := table.having(op)):
            self._ordinal += 1
            return
        block, now, out = self._next(table.relation.name), self._closing, self._out
        for output in outputs:
            at = self.position
            output.event(out, at, key, before, after, op, lsn, new, header, old, now, block)

    def _next(self, collection: str) -> bytes:
        """Number the next event; its ``transaction`` block."""
        self._ordinal += 1
        if (ledger := self._ledger) is None:
            return NO_BLOCK
        block = ledger.count(collection)
        if ledger.events == 1:
            self._put(ledger.topic, ledger.begin(self.position))
        return block

    def _put(self, topic: str, record: Record) -> None:
        self._out.put(topic, record, 0, self.position, self._positioned)

    def _update(self, update: messages.Update, lsn: int) -> None:
        table = self._table(update.relation_oid)
        rows, old, new = table.rows, update.old, table.received(update.new)
        if old is None:
            self._event(table, rows.key(new), b"null", rows.row(new), _UPDATE, lsn, new)
            return
        old = table.received(old)
        new = filled(new, old, update.image is Image.FULL, rows.key_columns)
        key, old_key = rows.key(new), rows.key(old)
        if key == old_key or key is None or old_key is None:
            self._event(table, key, rows.row(old), rows.row(new), _UPDATE, lsn, new, old=old)
            return
        if UNCHANGED in new:
            new = self._completed(table, new)
        gone = (NEW_KEY_HEADER, rows.without_schema(key))
        self._event(table, old_key, rows.row(old), b"null", _DELETE, lsn, [], gone, old)
        moved = (OLD_KEY_HEADER, rows.without_schema(old_key))
        self._event(table, key, b"null", rows.row(new), _CREATE, lsn, new, moved)

    def _completed(self, table: Table, new: Values) -> Values:
        return self._tables.completed(table, new, self._open("a row").xid or 0)

    def _truncate(self, truncate: messages.Truncate, lsn: int) -> None:
        if _TRUNCATE in self._skipped:
            self._ordinal += len(truncate.relation_oids)
            return
        for oid in truncate.relation_oids:
            table = self._table(oid)
            if not (outputs := table.having(_TRUNCATE)):
                self._ordinal += 1
                continue
            block = self._next(table.relation.name)
            for output in outputs:
                output.truncate(self._out, self.position, lsn, self._closing, block)

    def _message(self, message: messages.LogicalMessage, lsn: int) -> None:
        if message.prefix == HEARTBEAT:
            beat = heartbeat(self._commit_lsn, message.content, self._nonce)
            self.heartbeat = beat or self.heartbeat
            return
        transaction = self._transaction
        if transaction is None:
            # Written outside of any transaction: it is one of its own, at its own last byte.
            # Its LSN is its end, where the next record begins, which may be a commit's.
            self._previous_end = message.lsn  # as Debezium counts, in `sequence`
            self._start(Transaction(message.lsn - 1, self._now_us, None, self._previous_end))
        at = self._open("a message")
        ordinal, now_us = self._ordinal + 1, self._now_us
        topic, record = self._messages.record(message, at, lsn, ordinal, now_us, self._next)
        size, told = len(record["value"] or b""), self._positioned
        self._out.put(topic, record, size, self.position, told, message=True)
        self._transaction = transaction
