"""Streamed changes of one table version as CloudEvents in JSON, structured mode. Pure.

Names and values of attributes are those of Debezium's ``CloudEventsConverter``, but for ``id``: its
own is the same for several events, and consumers leave out what has an id that they have seen.
``source.unchanged`` is an attribute of JSON text, as attributes are no lists.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from cdc.events.cloud.data_schema import data_schema
from cdc.events.envelope import (
    ChangeEncoder,
    SourceContext,
    Transaction,
    number,
    origin_name,
    text,
)
from cdc.events.rows import escaped
from cdc.events.schemas.schema import schema_head
from cdc.events.transactions import NO_BLOCK
from cdc.protocol.messages import UNCHANGED, Values
from cdc.protocol.relation import Relation

CONTENT_TYPE: Final = ("content-type", b"application/cloudevents+json; charset=UTF-8")
"""The header that says so to readers of CloudEvents."""
_NOTHING: Final = (
    b'"iodebeziumtxid":null,"iodebeziumtxtotalorder":null,"iodebeziumtxdatacollectionorder":null'
)
_UNCHANGED: Final = b',"iodebeziumunchanged":'


class CloudEncoder:
    """``begin`` once for each transaction that touches the table, then any number of ``value``.

    ``token`` tells the rows of one reader of a snapshot from those of others.
    """

    __slots__ = (
        "_context",
        "_data",
        "_end",
        "_events",
        "_id",
        "_is_snapshot",
        "_parts",
        "_read",
        "_relation",
        "_relaxed",
        "_token",
        "required",
        "rows",
    )

    def __init__(self, relation: Relation, context: SourceContext, token: str = "") -> None:
        self._events = ChangeEncoder(relation, context)
        self.rows, self.required = self._events.rows, self._events.required
        self._context, self._relation, self._token = context, relation, token
        form = context.form
        self._data, self._relaxed = (
            schema_head(data_schema(relation, context.name, form, relaxed=relaxed))
            if form.wrapped
            else b""
            for relaxed in (False, True)
        )
        self._end = b"}" if form.wrapped else b""
        self._id = self._parts = b""
        self._is_snapshot = False
        self._read = 0

    def begin(self, transaction: Transaction, snapshot: str = "false") -> None:
        """Form what all events of the transaction share; ``snapshot`` marks a snapshot's rows."""
        at, context, relation = transaction, self._context, self._relation
        previous = b"null" if at.previous_end_lsn is None else b'\\"%d\\"' % at.previous_end_lsn
        name = text(context.name)
        inner = name[1:-1]
        head = b'{"id":"name:%b;lsn:%%(lsn)d;txId:%b;sequence:[%b,\\"%%(lsn)d\\"];%%(of)b"' % (
            escaped(inner), number(at.xid), previous,
        )  # fmt: skip
        told: list[tuple[str, bytes]] = [
            ("op", b"%(op)b"),
            ("version", escaped(text(context.version))),
            ("connector", b'"postgresql"'),
            ("name", escaped(name)),
            ("tsms", _quoted(at.commit_ms)),
            ("snapshot", text(snapshot)),
            ("db", escaped(text(context.database))),
            ("sequence", b'"[%b,\\"%%(lsn)d\\"]"' % previous),
            ("tsus", _quoted(at.commit_us)),
            ("tsns", _quoted(at.commit_us * 1000)),
            ("schema", escaped(text(relation.schema))),
            ("table", escaped(text(relation.table))),
            ("txId", _quoted(at.xid)),
            ("lsn", b'"%(lsn)d"'),
            ("xmin", b"null"),
            ("origin", escaped(origin_name(at))),
            ("originlsn", _quoted(at.origin_lsn)),
            ("commitlsn", _quoted(at.commit_lsn)),
            ("ordinal", b'"%(ordinal)d"'),
            ("schemaid", text(relation.schema_id())),
        ]
        attributes = b",".join(b'"iodebezium%b":%b' % (n.encode(), v) for n, v in told)
        self._parts = b"%b%b%b%b" % (
            head,
            b',"source":"/debezium/postgresql/%b","specversion":"1.0","type":'
            b'"io.debezium.connector.postgresql.DataChangeEvent","time":"%b",'
            b'"datacontenttype":"application/json",' % (escaped(inner), _moment(at.commit_ms)),
            attributes,
            b',%(more)b,"data":%(data)b}',
        )
        self._is_snapshot = snapshot != "false"

    def tail(self, unchanged: bytes = b"", transaction: bytes = b"null") -> bytes:
        """The attributes of a transaction block, and what names unchanged columns."""
        if transaction == NO_BLOCK:
            return _NOTHING + unchanged
        block = json.loads(transaction)
        return b'"iodebeziumtxid":%b,"iodebeziumtxtotalorder":"%d",' % (
            text(block["id"]), block["total_order"],
        ) + b'"iodebeziumtxdatacollectionorder":"%d"%b' % (
            block["data_collection_order"], unchanged,
        )  # fmt: skip

    def special_tail(self, _after: bytes, new: Values, transaction: bytes) -> bytes | None:
        """See ``ChangeEncoder``."""
        if UNCHANGED not in new:
            return None if transaction == NO_BLOCK else self.tail(b"", transaction)
        columns = zip(self._relation.columns, new, strict=True)
        names = [column.name for column, value in columns if value is UNCHANGED]
        listed = json.dumps(names, ensure_ascii=False, separators=(",", ":"))
        return self.tail(_UNCHANGED + text(listed), transaction)

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
        _closing: bytes,
        tail: bytes | None = None,
        *,
        relaxed: bool = False,
    ) -> bytes:
        """One event. See ``ChangeEncoder``."""
        of = b"ordinal:%d" % ordinal
        if self._is_snapshot:  # all have one position
            self._read += 1
            of = b"row:%b-%d" % (self._token.encode(), self._read)
        elif (
            not ordinal
        ):  # what empties the topics before a snapshot: of each table at one position
            of = b"table:%b" % text(self._relation.name)[1:-1]
        head = self._relaxed if relaxed else self._data
        return self._parts % {
            b"lsn": lsn,
            b"ordinal": ordinal,
            b"of": of,
            b"op": op,
            b"more": tail or _NOTHING,
            b"data": b'%b{"before":%b,"after":%b}%b' % (head, before, after, self._end),
        }


def _quoted(value: int | None) -> bytes:
    return b"null" if value is None else b'"%d"' % value


def _moment(ms: int) -> bytes:
    """With three digits of a second's fraction, also zeros."""
    whole = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms % 1000:03d}Z".encode()
