"""Logical messages (``pg_logical_emit_message``): as Debezium emits them, ``op: m``, but for those
of ``headwater.emit``. Pure."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from hashlib import sha256

from cdc.events import ddl
from cdc.events.envelope import SourceContext, Transaction, source_parts, text
from cdc.events.formats.packing import Packing, topic_packing
from cdc.events.outbox import PREFIX, Outbox, parse, record
from cdc.events.records import Record
from cdc.events.schemas.event_schemas import MESSAGE_KEY, MESSAGE_VALUE
from cdc.events.schemas.schema import schema_head, with_head
from cdc.lsn import Position
from cdc.protocol.messages import LogicalMessage, Omitted
from cdc.topics import message_topic


class Messages:
    """What the messages of one source become. Without ``outbox`` all are ``op: m``."""

    def __init__(
        self, context: SourceContext, partitions: Callable[[str], int], outbox: Outbox | None
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._outbox = outbox
        self._topic = message_topic(context.name)
        schemas = context.form.wrapped
        self._key_head = schema_head(MESSAGE_KEY) if schemas else b""
        self._value_head = schema_head(MESSAGE_VALUE) if schemas else b""
        self._packing: Packing | None = None

    def record(
        self,
        message: LogicalMessage,
        at: Transaction,
        lsn: int,
        ordinal: int,
        now_us: int,
        count: Callable[[str], bytes],
    ) -> tuple[str, Record]:
        """The record of a message of transaction ``at``, and its topic. ``count`` is called once,
        with what the event is counted as, for its ``transaction`` block."""
        prefix = message.prefix if message.omitted is None else ""  # nothing is left to be parsed
        if prefix == PREFIX and self._outbox is not None:
            emitted = self._emitted(message, self._outbox, Position(at.commit_lsn, ordinal), at)
            if emitted is not None:
                count(emitted[0].removeprefix(f"{self._context.name}."))
                return emitted
        if prefix == ddl.PREFIX and self._outbox is not None:
            change = ddl.parse(message, values=not self._outbox.hides_values)
            if change is None and self._outbox.hides_values:
                message = _without_content(message)  # it may be of an earlier trigger
            topic = self._outbox.ddl(change.secret) if change else None
            if change is not None and topic is not None:
                count("ddl")
                return topic, change.record(Position(at.commit_lsn, ordinal), at.commit_ms)
            self._outbox.passed_over(message.lsn, "it is not known to be of the DDL trigger")
            if change is not None:  # it may be, and this capture not know its secret
                message = message._replace(content=change.document)
        if message.omitted is not None and self._outbox is not None:
            why = f"it has {message.omitted.bytes} bytes: only its size and hash are published"
            self._outbox.passed_over(message.lsn, why)
        block = count("message")
        value = _value(self._context, at, message, lsn, ordinal, now_us, block)
        key = b'{"prefix":%b}' % text(message.prefix)
        if (packing := self._packer()) is not None:
            return self._topic, {"key": packing.key(key), "value": packing.value(value)}
        key, value = with_head(self._key_head, key), with_head(self._value_head, value)
        return self._topic, {"key": key, "value": value}

    def _packer(self) -> Packing | None:
        """Its schemas are registered with the first message."""
        if self._packing is None:
            context = self._context
            schemas = MESSAGE_KEY, MESSAGE_VALUE
            self._packing = topic_packing(self._topic, context.form, context.registry, *schemas)
        return self._packing

    def _emitted(
        self, message: LogicalMessage, outbox: Outbox, position: Position, at: Transaction
    ) -> tuple[str, Record] | None:
        """What ``headwater.emit`` wrote; None for what it cannot have written."""
        emitted = parse(message.content) if message.transactional else None
        if emitted is None:
            outbox.passed_over(message.lsn, "headwater.emit did not write it")
            return None
        topic = outbox.outbox(emitted.topic)
        if topic is None:
            if not outbox.is_others(emitted.topic):
                why = "its topic is none of capture.emit_topics, or a table's"
                outbox.passed_over(message.lsn, why)
            return None
        return topic, record(emitted, position, at.commit_ms, self._partitions(topic))


def _without_content(message: LogicalMessage) -> LogicalMessage:
    content = message.content
    omitted = Omitted(len(content), sha256(content).hexdigest())
    return message._replace(content=b"", omitted=omitted)


def _value(
    context: SourceContext,
    transaction: Transaction,
    message: LogicalMessage,
    lsn: int,
    ordinal: int,
    now_us: int,
    block: bytes,
) -> bytes:
    """The event of a logical message (``op: m``): no images, and only ``ts_ms`` of the clocks."""
    head, middle, end = source_parts(context, transaction, "", "")
    told = context.form.schemas  # then all fields are there, as the schema has them
    more = b',"schema_id":null,"unchanged":null}' if told else b"}"
    source = b"%b%d%b%d%b%d%b" % (head, lsn, middle, lsn, end, ordinal, more)
    if message.omitted is None:
        content = b'"%b"' % b2a_base64(message.content, newline=False)
        content += b',"omitted":null' if told else b""
    else:
        size, digest = message.omitted
        content = b'null,"omitted":{"bytes":%d,"sha256":%b}' % (size, text(digest))
    return (
        b'{"op":"m","ts_ms":%d,"source":%b,"transaction":%b,"message":{"prefix":%b,"content":%b}}'
    ) % (now_us // 1000, source, block, text(message.prefix), content)
