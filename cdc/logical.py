"""Logical messages (``pg_logical_emit_message``) as Debezium emits them: ``op: m``. Pure."""

from __future__ import annotations

from binascii import b2a_base64

from cdc.envelope import SourceContext, Transaction, source_parts, text
from cdc.messages import LogicalMessage
from cdc.records import Record


def message_record(
    context: SourceContext,
    transaction: Transaction,
    message: LogicalMessage,
    lsn: int,
    ordinal: int,
    now_us: int,
) -> Record:
    """The record of a logical message, keyed by its prefix."""
    value = _value(context, transaction, message, lsn, ordinal, now_us)
    key = b'{"prefix":%b}' % text(message.prefix)
    return {"key": key, "value": value, "timestamp": transaction.commit_ms}


def _value(
    context: SourceContext,
    transaction: Transaction,
    message: LogicalMessage,
    lsn: int,
    ordinal: int,
    now_us: int,
) -> bytes:
    """The event of a logical message (``op: m``): no images, and only ``ts_ms`` of the clocks."""
    head, middle, end = source_parts(context, transaction, "", "")
    source = b"%b%d%b%d%b%d}" % (head, lsn, middle, lsn, end, ordinal)
    content = b2a_base64(message.content, newline=False)
    return (
        b'{"op":"m","ts_ms":%d,"source":%b,"transaction":null,'
        b'"message":{"prefix":%b,"content":"%b"}}'
    ) % (now_us // 1000, source, text(message.prefix), content)
