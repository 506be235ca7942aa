"""Transaction metadata as Debezium's ``provide.transaction.metadata`` gives it. Pure.

Every event says its place among those of its transaction, and ``<source>.transaction`` gets a
record when the first event of a transaction is published and one when all are. Only counts are
kept. A transaction without events has no records; a tombstone is no event of its own, a truncate is
one for each table, however many partitions it stands in.

Two things are not as Debezium has them. The id is that of the transaction, its number and the LSN
of its commit, the same everywhere; Debezium takes each event's own LSN, so no two records of one
transaction would have one id. And messages are counted under ``message``, not under the name of a
Java object.
"""

from __future__ import annotations

import json
from typing import Any, Final

from cdc.events.envelope import Transaction
from cdc.events.form import OURS, Form
from cdc.events.formats.packing import Registry, topic_packing
from cdc.events.records import POSITION_HEADER, Record
from cdc.events.schemas.event_schemas import TRANSACTION_KEY, TRANSACTION_VALUE
from cdc.events.schemas.schema import schema_head, with_head
from cdc.lsn import Position
from cdc.topics import transaction_topic

NO_BLOCK: Final = b"null"
"""The ``transaction`` of an event outside of any, or without metadata."""


class Ledger:
    """Counts of the open transaction."""

    def __init__(self, source: str, form: Form = OURS, registry: Registry | None = None) -> None:
        self.topic = transaction_topic(source)
        self._key_head = schema_head(TRANSACTION_KEY) if form.wrapped else b""
        self._value_head = schema_head(TRANSACTION_VALUE) if form.wrapped else b""
        schemas = TRANSACTION_KEY, TRANSACTION_VALUE
        self._packing = topic_packing(self.topic, form, registry, *schemas)
        self._at: Transaction | None = None
        self._counts: dict[str, int] = {}
        self.events = 0

    def start(self, transaction: Transaction) -> None:
        """Nothing is counted yet; nor will it be for what has no transaction id."""
        self._at = transaction if transaction.xid is not None else None
        self._counts = {}
        self.events = 0

    def count(self, collection: str) -> bytes:
        """One more event: its ``transaction`` block as JSON."""
        if self._at is None:
            return NO_BLOCK
        self.events += 1
        of_collection = self._counts[collection] = self._counts.get(collection, 0) + 1
        return b'{"id":"%b","total_order":%d,"data_collection_order":%d}' % (
            self._id(self._at).encode(),
            self.events,
            of_collection,
        )

    def begin(self, position: Position) -> Record:
        """The record that precedes the first event, whose position it has."""
        return self._record("BEGIN", None, None, position)

    def end(self, position: Position) -> Record:
        """The record behind the last event, at a position of its own."""
        collections = [
            {"data_collection": name, "event_count": count} for name, count in self._counts.items()
        ]
        return self._record("END", self.events, collections, position)

    def _record(
        self, status: str, events: int | None, collections: list[Any] | None, position: Position
    ) -> Record:
        assert self._at is not None
        id_ = self._id(self._at)
        value = {
            "status": status,
            "id": id_,
            "event_count": events,
            "data_collections": collections,
            "ts_ms": self._at.commit_ms,
        }
        key_text, text = _json({"id": id_}), _json(value)
        if (packing := self._packing) is not None:
            key_text, text = packing.key(key_text), packing.value(text)
        return {
            "key": with_head(self._key_head, key_text),
            "value": with_head(self._value_head, text),
            "headers": [(POSITION_HEADER, position.hex().encode())],
        }

    @staticmethod
    def _id(at: Transaction) -> str:
        return f"{at.xid}:{at.commit_lsn}"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
