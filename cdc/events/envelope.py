"""Events as JSON: the key and the value that Debezium emits for the same change. Pure.

One encoder per table version, built when the relation arrives, so that a row costs one pass over
its values and one formatting. The order of fields is Debezium's; inside ``source`` ours follow:
``commit_lsn``, ``ordinal``, ``schema_id``, and ``unchanged``, which is left out where there is none
unless a schema tells of it. See ``docs/events.md`` and ``docs/event-modes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cdc.events.form import OURS, Form
from cdc.events.formats.packing import Registry
from cdc.events.keys.exactness import Unheld
from cdc.events.rows import RowEncoder, escaped, required_columns
from cdc.events.schemas.event_schemas import event_schema
from cdc.events.schemas.schema import schema_head, with_head
from cdc.events.values.encoder import quote
from cdc.protocol.messages import UNCHANGED, Values
from cdc.protocol.relation import Relation
from cdc.routes.route import Place

NEW_KEY_HEADER: Final = "__debezium.newkey"
OLD_KEY_HEADER: Final = "__debezium.oldkey"


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What every event of a source says of it, and the form that it has."""

    version: str
    name: str
    database: str
    form: Form = OURS
    registry: Registry | None = None
    """Where schemas go that no record has in front of it."""
    unheld: Unheld | None = None
    """Who is told of values that the form has nothing for."""

    def outputs(self, relation: Relation) -> list[tuple[SourceContext, Place]]:
        """The same for each topic of a table, which may have a content of its own."""
        return [
            (self if form is self.form else replace(self, form=form), place)
            for form, place in self.form.outputs(self.name, relation.schema, relation.table)
        ]


class Transaction(NamedTuple):
    """The transaction that events belong to; ``previous_end_lsn`` is the last one's end."""

    commit_lsn: int
    commit_us: int
    xid: int | None
    previous_end_lsn: int | None
    origin: str | None = None
    origin_lsn: int | None = None

    @property
    def commit_ms(self) -> int:
        """When it was committed, by the source's clock, in milliseconds since 1970."""
        return self.commit_us // 1000


def text(value: str) -> bytes:
    """A JSON string."""
    return quote(value.encode())


def clock(now_us: int) -> bytes:
    """The envelope's closing timestamps, of when capture saw the change."""
    return b'"ts_ms":%d,"ts_us":%d,"ts_ns":%d}' % (now_us // 1000, now_us, now_us * 1000)


def number(value: int | None) -> bytes:
    """A JSON number, or null."""
    return b"null" if value is None else b"%d" % value


_EVENT: Final = b'{"before":%b,"after":%b,"source":%b%d%b%d%b%d%b%b,%b'


def event_heads(relation: Relation, context: SourceContext) -> tuple[bytes, bytes]:
    """What stands in front of a table's events: with its schema, and with one in which no column is
    required; empty without schemas."""
    if not context.form.wrapped:
        return b"", b""
    strict, relaxed = (
        schema_head(event_schema(relation, context.name, context.form, relaxed=relaxed))
        for relaxed in (False, True)
    )
    return strict, relaxed


def nothing_unchanged(form: Form) -> bytes:
    """What ``source`` says where no value was left alone."""
    return b',"unchanged":null' if form.schemas else b""


class ChangeEncoder:
    """Streamed changes of one table version.

    ``begin`` once for each transaction that touches the table, then any number of ``value``.
    """

    __slots__ = (
        "_context",
        "_event",
        "_nothing_unchanged",
        "_parts",
        "_relation",
        "_relaxed",
        "_schema_id",
        "_tail",
        "required",
        "rows",
    )

    def __init__(self, relation: Relation, context: SourceContext) -> None:
        form = context.form
        self.rows = RowEncoder(relation, form, context.name, context.unheld)
        self._context = context
        self._relation = relation
        self._parts = (b"", b"", b"")
        self._schema_id = text(relation.schema_id())
        self._nothing_unchanged = nothing_unchanged(form)
        self._tail = self.tail()
        heads = event_heads(relation, context)
        self._event, self._relaxed = (with_head(escaped(head), _EVENT) for head in heads)
        self.required = required_columns(relation, form)

    def begin(self, transaction: Transaction, snapshot: str = "false") -> None:
        """Form what all events of the transaction share; ``snapshot`` marks a snapshot's rows."""
        self._parts = source_parts(
            self._context, transaction, self._relation.schema, self._relation.table, snapshot
        )

    def tail(self, unchanged: bytes = b"", transaction: bytes = b"null") -> bytes:
        """What stands between ordinal and ``op``: ``unchanged`` from ``unchanged``, and the
        ``transaction`` block."""
        return b',"schema_id":%b%b},"transaction":%b,"op":' % (
            self._schema_id,
            unchanged or self._nothing_unchanged,
            transaction,
        )

    def unchanged(self, values: Values) -> bytes:
        """The field that names the columns whose placeholder stands for an unchanged value. Empty
        when the row's placeholders are all text of its own."""
        columns = self._relation.columns
        names = [
            text(column.name)
            for column, value in zip(columns, values, strict=True)
            if value is UNCHANGED
        ]
        return b',"unchanged":[%b]' % b",".join(names)

    def special_tail(self, after: bytes, new: Values, transaction: bytes) -> bytes | None:
        """The tail of an event that has a placeholder or a transaction block; else None."""
        mark = self.rows.mark
        if mark in after and (mark or UNCHANGED in new):
            return self.tail(self.unchanged(new), transaction)
        return None if transaction == b"null" else self.tail(b"", transaction)

    def is_relaxed(self, old: Values | None, new: Values) -> bool:
        """Whether an image (None and empty are none) has null where the table is NOT NULL, which it
        became later, or for which the form has nothing else. Never without ``required`` columns."""
        if old and self._relation.replica_identity == "f" and self._has_null(old):
            return True
        return bool(new) and self._has_null(new)

    def _has_null(self, image: Values) -> bool:
        return self.rows.are_null(image, self.required)

    def value(
        self,
        before: bytes,
        after: bytes,
        op: bytes,
        lsn: int,
        ordinal: int,
        closing: bytes,
        tail: bytes | None = None,
        *,
        relaxed: bool = False,
    ) -> bytes:
        """One event: ``before`` and ``after`` are JSON, ``op`` a JSON string, ``closing`` from
        ``clock``, ``lsn`` the change's own place in the WAL."""
        head, middle, end = self._parts
        return (self._relaxed if relaxed else self._event) % (
            before,
            after,
            head,
            lsn,
            middle,
            lsn,
            end,
            ordinal,
            tail or self._tail,
            op,
            closing,
        )


class SourceLiterals(NamedTuple):
    """The ``source`` object of a table's events but for what varies, in the order of its fields:
    each literal ends where the value in its name goes, ``ordinal`` being the last one."""

    ts_ms: bytes
    previous: bytes
    lsn_in_sequence: bytes
    ts_us: bytes
    ts_ns: bytes
    xid: bytes
    lsn: bytes
    origin: bytes
    origin_lsn: bytes
    commit_lsn: bytes
    ordinal: bytes


def source_literals(
    context: SourceContext, schema: str, table: str, snapshot: str = "false"
) -> SourceLiterals:
    """See ``SourceLiterals``."""
    return SourceLiterals(
        b'{"version":%b,"connector":"postgresql","name":%b,"ts_ms":'
        % (text(context.version), text(context.name)),
        b',"snapshot":"%b","db":%b,"sequence":"[' % (snapshot.encode(), text(context.database)),
        b',\\"',
        b'\\"]","ts_us":',
        b',"ts_ns":',
        b',"schema":%b,"table":%b,"txId":' % (text(schema), text(table)),
        b',"lsn":',
        b',"xmin":null,"origin":',
        b',"origin_lsn":',
        b',"commit_lsn":',
        b',"ordinal":',
    )


def previous_end(lsn: int | None) -> bytes:
    """The end of the transaction before, as it stands in ``sequence``."""
    return b"null" if lsn is None else b'\\"%d\\"' % lsn


def origin_name(at: Transaction) -> bytes:
    """The transaction's origin, as JSON."""
    return b"null" if at.origin is None else text(at.origin)


def source_parts(
    context: SourceContext, at: Transaction, schema: str, table: str, snapshot: str = "false"
) -> tuple[bytes, bytes, bytes]:
    """The ``source`` object cut where the change's own LSN, its LSN again and its ordinal go."""
    says = source_literals(context, schema, table, snapshot)
    head = b"%b%d%b%b%b" % (
        says.ts_ms,
        at.commit_ms,
        says.previous,
        previous_end(at.previous_end_lsn),
        says.lsn_in_sequence,
    )
    middle = b"%b%d%b%d%b%b%b" % (
        says.ts_us,
        at.commit_us,
        says.ts_ns,
        at.commit_us * 1000,
        says.xid,
        number(at.xid),
        says.lsn,
    )
    end = b"%b%b%b%b%b%d%b" % (
        says.origin,
        origin_name(at),
        says.origin_lsn,
        number(at.origin_lsn),
        says.commit_lsn,
        at.commit_lsn,
        says.ordinal,
    )
    return head, middle, end
