"""Events as JSON: the key and the value that Debezium emits for the same change. Pure.

One encoder per table version, built when the relation arrives, so that a row costs one pass over
its values and one formatting. The order of fields is Debezium's (``schemas.enable=false``); inside
``source`` ours follow: ``commit_lsn``, ``ordinal``, ``schema_id``. See ``docs/events.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from cdc.events.values.encoder import UNAVAILABLE, Encoder, cell_encoder, quote
from cdc.protocol.messages import UNCHANGED, Value, Values
from cdc.protocol.relation import Relation

NEW_KEY_HEADER: Final = "__debezium.newkey"
OLD_KEY_HEADER: Final = "__debezium.oldkey"


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What every event of a source says of it."""

    version: str
    name: str
    database: str


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


class RowEncoder:
    """Rows and keys of one table version as JSON objects."""

    __slots__ = ("_encoders", "_key", "_key_template", "_template")

    def __init__(self, relation: Relation) -> None:
        self._encoders: list[Encoder | None] = list(map(cell_encoder, relation.columns))
        names = [column.name for column in relation.columns]
        self._template = json_object(names)
        self._key = [names.index(name) for name in relation.key]
        self._key_template = json_object(list(relation.key))

    def row(self, values: Values) -> bytes:
        """The row as a JSON object; unchanged TOAST becomes Debezium's placeholder."""
        cells: list[bytes] = []
        append = cells.append
        for value, encode in zip(values, self._encoders, strict=True):
            if value is None:
                append(b"null")
            elif value is UNCHANGED:
                append(UNAVAILABLE)
            elif encode is None:
                append(value)
            else:
                append(encode(value))
        return self._template % tuple(cells)

    def key(self, values: Values) -> bytes | None:
        """The key as a JSON object, ``None`` for a table without a key."""
        columns = self._key
        if len(columns) == 1:  # nearly every table: spared the list and the tuple
            return self._key_template % self._cell(values[columns[0]], columns[0])
        if not columns:
            return None
        return self._key_template % tuple([self._cell(values[i], i) for i in columns])

    @property
    def key_columns(self) -> list[int]:
        """Where the key's columns stand in a row."""
        return self._key

    def key_values(self, values: Values) -> Values:
        """The values of the key columns, in key order."""
        return [values[i] for i in self._key]

    def _cell(self, value: Value, column: int) -> bytes:
        if value is None:
            return b"null"
        if value is UNCHANGED:
            return UNAVAILABLE
        encode = self._encoders[column]
        return value if encode is None else encode(value)


def json_object(names: list[str]) -> bytes:
    """A template with one ``%b`` for each name's value."""
    pairs = [text(name).replace(b"%", b"%%") + b":%b" for name in names]
    return b"{" + b",".join(pairs) + b"}"


class ChangeEncoder:
    """Streamed changes of one table version.

    ``begin`` once for each transaction that touches the table, then any number of ``value``.
    """

    __slots__ = ("_context", "_parts", "_relation", "_schema_id", "_tail", "rows")

    def __init__(self, relation: Relation, context: SourceContext) -> None:
        self.rows = RowEncoder(relation)
        self._context = context
        self._relation = relation
        self._parts = (b"", b"", b"")
        self._schema_id = text(relation.schema_id())
        self._tail = self.tail()

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
            unchanged,
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
        if UNAVAILABLE in after:
            return self.tail(self.unchanged(new), transaction)
        return None if transaction == b"null" else self.tail(b"", transaction)

    def value(
        self,
        before: bytes,
        after: bytes,
        op: bytes,
        lsn: int,
        ordinal: int,
        closing: bytes,
        tail: bytes | None = None,
    ) -> bytes:
        """One event: ``before`` and ``after`` are JSON, ``op`` a JSON string, ``closing`` from
        ``clock``, ``lsn`` the change's own place in the WAL."""
        head, middle, end = self._parts
        return b'{"before":%b,"after":%b,"source":%b%d%b%d%b%d%b%b,%b' % (
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
