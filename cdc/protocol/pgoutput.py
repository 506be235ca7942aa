"""The pgoutput protocol, version 1: the bytes of one message in, one message object out.

Pure and total: ``decode`` returns a message or raises ``ProtocolError``, whatever the bytes are.
Source: PostgreSQL documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from struct import Struct, error
from typing import Final

from cdc.errors import ProtocolError
from cdc.protocol.messages import (
    POSTGRES_EPOCH_US,
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Image,
    Insert,
    LogicalMessage,
    Message,
    Omitted,
    Origin,
    RelationColumn,
    RelationMessage,
    Truncate,
    TypeMessage,
    Update,
    Values,
)

LARGEST_MESSAGE_BYTES: Final = 16 << 20
"""Of a logical message, any role may write one of 1 GB. ``headwater.emit`` refuses a larger one."""
_PREFIX_BYTES: Final = 200
"""What is kept of the prefix of a larger message."""

_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_MESSAGE = Struct(">BQ")
_U64 = Struct(">Q")
_U32 = Struct(">I")
_U16 = Struct(">H")
_OID_AND_KIND = Struct(">IB")
_KIND_AND_LENGTH = Struct(">BI")
_COLUMN = Struct(">Ii")
_TRUNCATE = Struct(">IB")

_NEW, _KEY, _OLD = b"NKO"
_TEXT, _NULL, _UNCHANGED = b"tnu"

# A NULL or unchanged column is one byte, yet the loop reads a kind and a length in one call.
# Padding keeps that call inside the buffer behind the last column; what a message truly holds
# is checked against its own length at the end.
_PADDING = b"\0\0\0\0"


def decode(payload: bytes, start: int = 0) -> Message:
    """The one message in ``payload[start:]``; raises ``ProtocolError`` for anything else."""
    try:
        kind = payload[start]
        if kind == 73:  # I: by far the most frequent, so asked for first
            return _insert(payload, start + 1)
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise ProtocolError(f"pgoutput: unknown message type {kind:#04x}", _HINT)
        return decoder(payload, start + 1)
    except (error, IndexError, UnicodeDecodeError, ValueError) as fault:
        raise ProtocolError(f"pgoutput: malformed message: {fault}", _HINT) from None


_HINT = "check the server and the connection: capture uses protocol version 1"


def _insert(payload: bytes, at: int) -> Insert:
    oid, kind = _OID_AND_KIND.unpack_from(payload, at)
    if kind != _NEW:
        raise ValueError(f"insert without a new row ({kind:#04x})")
    values, at = _row(payload + _PADDING, at + 5)
    _end(payload, at)
    return Insert(oid, values)


def _update(payload: bytes, at: int) -> Update:
    oid, kind = _OID_AND_KIND.unpack_from(payload, at)
    padded = payload + _PADDING
    at += 5
    image = old = None
    if kind != _NEW:
        image = _image(kind)
        old, at = _row(padded, at)
        kind = payload[at]
        at += 1
    if kind != _NEW:
        raise ValueError(f"update without a new row ({kind:#04x})")
    new, at = _row(padded, at)
    _end(payload, at)
    if old is not None and len(old) != len(new):
        raise ValueError(f"update with {len(old)} old and {len(new)} new columns")
    return Update(oid, image, old, new)


def _delete(payload: bytes, at: int) -> Delete:
    oid, kind = _OID_AND_KIND.unpack_from(payload, at)
    old, at = _row(payload + _PADDING, at + 5)
    _end(payload, at)
    return Delete(oid, _image(kind), old)


def _image(kind: int) -> Image:
    if kind == _KEY:
        return Image.KEY
    if kind == _OLD:
        return Image.FULL
    raise ValueError(f"unknown old row {kind:#04x}")


def _row(padded: bytes, at: int) -> tuple[Values, int]:
    """A TupleData: the columns' values and where the next byte stands."""
    (count,) = _U16.unpack_from(padded, at)
    at += 2
    values: Values = []
    append = values.append
    kind_and_length = _KIND_AND_LENGTH.unpack_from
    for _ in range(count):
        kind, length = kind_and_length(padded, at)
        if kind == _TEXT:
            at += 5 + length
            append(padded[at - length : at])
        elif kind == _NULL:
            at += 1
            append(None)
        elif kind == _UNCHANGED:
            at += 1
            append(UNCHANGED)
        else:
            raise ValueError(f"unknown column kind {kind:#04x}")
    return values, at


def _end(payload: bytes, at: int) -> None:
    if at != len(payload):
        raise ValueError(f"{len(payload)} bytes where {at} were announced")


def _begin(payload: bytes, at: int) -> Begin:
    commit_lsn, time, xid = _BEGIN.unpack_from(payload, at)
    _end(payload, at + _BEGIN.size)
    return Begin(commit_lsn, time + POSTGRES_EPOCH_US, xid)


def _commit(payload: bytes, at: int) -> Commit:
    _flags, commit_lsn, end_lsn, time = _COMMIT.unpack_from(payload, at)
    _end(payload, at + _COMMIT.size)
    return Commit(commit_lsn, end_lsn, time + POSTGRES_EPOCH_US)


def _origin(payload: bytes, at: int) -> Origin:
    (lsn,) = _U64.unpack_from(payload, at)
    name, at = _string(payload, at + 8)
    _end(payload, at)
    return Origin(lsn, name)


def _relation(payload: bytes, at: int) -> RelationMessage:
    (oid,) = _U32.unpack_from(payload, at)
    schema, at = _string(payload, at + 4)
    table, at = _string(payload, at)
    identity = chr(payload[at])
    if identity not in "dnfi":
        raise ValueError(f"unknown replica identity {identity!r}")
    (count,) = _U16.unpack_from(payload, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = payload[at]
        name, at = _string(payload, at + 1)
        type_oid, typmod = _COLUMN.unpack_from(payload, at)
        at += _COLUMN.size
        columns.append(RelationColumn(name, type_oid, typmod, bool(flags & 1)))
    _end(payload, at)
    # An empty schema name is the protocol's short form of pg_catalog.
    return RelationMessage(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _type(payload: bytes, at: int) -> TypeMessage:
    (oid,) = _U32.unpack_from(payload, at)
    schema, at = _string(payload, at + 4)
    name, at = _string(payload, at)
    _end(payload, at)
    return TypeMessage(oid, schema or "pg_catalog", name)


def _truncate(payload: bytes, at: int) -> Truncate:
    count, flags = _TRUNCATE.unpack_from(payload, at)
    at += _TRUNCATE.size
    _end(payload, at + 4 * count)
    oids = tuple(_U32.unpack_from(payload, at + 4 * i)[0] for i in range(count))
    return Truncate(oids, bool(flags & 1), bool(flags & 2))


def _logical_message(payload: bytes, at: int) -> LogicalMessage:
    flags, lsn = _MESSAGE.unpack_from(payload, at)
    if len(payload) > LARGEST_MESSAGE_BYTES:
        return _omitted(payload, at, bool(flags & 1), lsn)
    prefix, at = _string(payload, at + _MESSAGE.size)
    (length,) = _U32.unpack_from(payload, at)
    at += 4
    _end(payload, at + length)
    return LogicalMessage(bool(flags & 1), lsn, prefix, payload[at : at + length])


def _omitted(payload: bytes, at: int, transactional: bool, lsn: int) -> LogicalMessage:
    """A message too large to be kept. Every copy of it would take as much memory again."""
    begin = at + _MESSAGE.size
    end = payload.index(b"\0", begin)
    (length,) = _U32.unpack_from(payload, end + 1)
    _end(payload, end + 5 + length)
    with memoryview(payload) as whole, whole[end + 5 :] as content:
        omitted = Omitted(length, sha256(content).hexdigest())
    prefix = payload[begin : min(end, begin + _PREFIX_BYTES)].decode(errors="replace")
    return LogicalMessage(transactional, lsn, prefix, b"", omitted)


def _string(payload: bytes, at: int) -> tuple[str, int]:
    end = payload.index(b"\0", at)
    return payload[at:end].decode(), end + 1


_DECODERS: dict[int, Callable[[bytes, int], Message]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
}
