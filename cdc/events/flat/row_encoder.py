"""Streamed changes of one table version as rows: what ``ChangeEncoder`` is for events. Pure.

The values are those that Debezium's ``ExtractNewRecordState`` makes of the same events. The
position stands in a header of each record, as nothing of the value is sure to say it.
"""

from __future__ import annotations

import json
from typing import Final

from cdc.errors import SourceError
from cdc.events.codes import DELETE, quoted
from cdc.events.envelope import (
    ChangeEncoder,
    SourceContext,
    Transaction,
    number,
    origin_name,
    previous_end,
    text,
)
from cdc.events.flat.added_fields import added_headers
from cdc.events.flat.row_schema import extra_fields, row_schema
from cdc.events.records import Header
from cdc.events.rows import escaped
from cdc.events.schemas.schema import schema_head
from cdc.protocol.messages import Values
from cdc.protocol.relation import Relation

_DELETE: Final = quoted(DELETE)
_SEQUENCE: Final = "source.sequence"
_OF_EACH: Final = {
    "": b"%(deleted)b",
    "op": b"%(op)b",
    "source.lsn": b"%(lsn)d",
    "source.ordinal": b"%(ordinal)d",
    "ts_ms": b"%(ts_ms)d",
    "ts_us": b"%(ts_us)d",
    "ts_ns": b"%(ts_ns)d",
}
"""What differs from event to event, by the field's path."""


class FlatEncoder:
    """``begin`` once for each transaction that touches the table, then any number of ``value``."""

    __slots__ = (
        "_added",
        "_closing",
        "_context",
        "_end",
        "_events",
        "_extra",
        "_headers",
        "_heads",
        "_relation",
        "_rewrites",
        "_seen",
        "_told",
        "required",
        "rows",
    )

    def __init__(self, relation: Relation, context: SourceContext) -> None:
        form = context.form
        self._events = ChangeEncoder(relation, context)
        self.rows, self.required = self._events.rows, self._events.required
        self._context, self._relation = context, relation
        self._extra = extra_fields(form)
        self._headers = added_headers(form.headers, form.header_prefix)
        self._told: dict[str, bytes | None] = {}
        names = {column.name for column in relation.columns}
        if taken := [one.name for one in self._extra if one.name in names]:
            raise SourceError(
                f"{relation.name} has a column {taken[0]}, and add.fields a field of that name",
                "give the field another name in add.fields (op:kind), or the column",
            )
        self._rewrites = form.rewrites_deletes
        self._heads = {
            (old, relaxed): schema_head(
                row_schema(relation, context.name, form, old=old, relaxed=relaxed)
            )
            if form.wrapped
            else b""
            for old in (False, True)
            for relaxed in (False, True)
        }
        self._end = b"}" if form.wrapped else b""
        self._added = b""
        self._closing = b""
        self._seen: dict[bytes, int] = {}

    def begin(self, transaction: Transaction, snapshot: str = "false") -> None:
        """Form what all rows of the transaction share; ``snapshot`` marks a snapshot's rows."""
        shared = self._shared(transaction, snapshot)
        self._added = b"".join(
            b",%b:%b" % (escaped(text(one.name)), _OF_EACH.get(one.path) or shared[one.path])
            for one in self._extra
        )
        if self._headers:
            known = {one.path for one in self._headers} & shared.keys()
            self._told = {path: _header_text(shared[path]) for path in known}

    def tail(self, _unchanged: bytes = b"", _transaction: bytes = b"null") -> bytes:
        """A row says nothing of what is unchanged, nor of its transaction."""
        return b""

    def special_tail(self, _after: bytes, _new: Values, _transaction: bytes) -> None:
        """See ``tail``."""

    def is_relaxed(self, old: Values | None, new: Values) -> bool:
        """See ``ChangeEncoder``."""
        return self._events.is_relaxed(old, new)

    def value(
        self,
        before: bytes,
        after: bytes,
        op: bytes,
        lsn: int,
        ordinal: int,
        closing: bytes,
        _tail: bytes | None = None,
        *,
        relaxed: bool = False,
    ) -> bytes:
        """The row; empty for a delete of which there is none. See ``ChangeEncoder``."""
        gone = op == _DELETE
        if gone and not self._rewrites:
            return b""
        image, head = before if gone else after, self._heads[gone, relaxed]
        return b"%b%b%b" % (head, self._extended(image, op, lsn, ordinal, closing), self._end)

    def headers(
        self, op: bytes, lsn: int, ordinal: int, closing: bytes, told: bool = False
    ) -> list[Header]:
        """The headers that the row's record gets, as Kafka Connect writes them: texts as they are,
        numbers in digits. ``told``: it is the tombstone behind a row that has them, which says the
        operation alone."""
        if told:
            return [(one.name, op[1:-1]) for one in self._headers if one.path == "op"]
        if not self._headers:
            return []
        self._see(closing)
        each = {
            "op": op[1:-1],
            "source.lsn": b"%d" % lsn,
            "source.ordinal": b"%d" % ordinal,
            **{name.decode(): b"%d" % value for name, value in self._seen.items()},
        }
        return [(one.name, each.get(one.path) or self._of(one.path, lsn)) for one in self._headers]

    def _of(self, path: str, lsn: int) -> bytes | None:
        told = self._told[path]
        return told % {b"lsn": lsn} if path == _SEQUENCE and told is not None else told

    def around(self, op: bytes, lsn: int, closing: bytes, *, relaxed: bool) -> tuple[bytes, bytes]:
        """What stands in front of a row of a snapshot, which is without its last brace, and what
        follows it."""
        made = self._extended(b"{\0}", op, lsn, 0, closing)
        return self._heads[False, relaxed], made.partition(b"\0")[2] + self._end

    def extra(self, op: bytes, lsn: int, closing: bytes) -> bytes:
        """The added fields alone, as a JSON object."""
        return b"{%b" % self._extended(b"{\0}", op, lsn, 0, closing)[2:].removeprefix(b",")

    def _extended(self, image: bytes, op: bytes, lsn: int, ordinal: int, closing: bytes) -> bytes:
        if not self._added:
            return image
        self._see(closing)
        more = self._added % {
            b"op": op,
            b"lsn": lsn,
            b"ordinal": ordinal,
            b"deleted": b'"true"' if op == _DELETE else b'"false"',
            **self._seen,
        }
        return b"{%b}" % more[1:] if image == b"{}" else b"%b%b}" % (image[:-1], more)

    def _see(self, closing: bytes) -> None:
        if closing != self._closing:
            self._closing = closing
            seen = json.loads(b"{" + closing)
            self._seen = {name.encode(): value for name, value in seen.items()}

    def _shared(self, at: Transaction, snapshot: str) -> dict[str, bytes]:
        """The fields of the source block, each with what it says, ready for a template."""
        context, relation = self._context, self._relation
        previous = previous_end(at.previous_end_lsn)
        told = {
            "version": text(context.version),
            "connector": b'"postgresql"',
            "name": text(context.name),
            "ts_ms": number(at.commit_ms),
            "snapshot": text(snapshot),
            "db": text(context.database),
            "ts_us": number(at.commit_us),
            "ts_ns": number(at.commit_us * 1000),
            "schema": text(relation.schema),
            "table": text(relation.table),
            "txId": number(at.xid),
            "xmin": b"null",
            "origin": origin_name(at),
            "origin_lsn": number(at.origin_lsn),
            "commit_lsn": number(at.commit_lsn),
            "schema_id": text(relation.schema_id()),
        }
        found = {f"source.{name}": escaped(value) for name, value in told.items()}
        found[_SEQUENCE] = b'"[%b,\\"%%(lsn)d\\"]"' % previous
        return found


def _header_text(told: bytes) -> bytes | None:
    """What a header says of JSON in a template; of the sequence a template again."""
    value = json.loads(told.replace(b"%%", b"%"))
    return None if value is None else str(value).encode()
