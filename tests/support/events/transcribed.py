"""Transactions as frames of pgoutput, and what a transcriber makes of them, without a server."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.form import OURS, Form
from cdc.events.records import Record
from cdc.protocol.messages import RelationMessage, Values
from cdc.protocol.relation import Column, Relation, TypeInfo

INT = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
TEXT = TypeInfo(25, "pg_catalog", "text", "base", "text")
TOPIC = "s.public.t"
NOW_US = 1_700_000_000_000_000


def relation(message: RelationMessage, _xid: int = 0, _lsn: int = 0) -> Relation:
    columns = tuple(
        Column(c.name, INT if c.type_oid == 23 else TEXT, c.typmod, c.name == "id")
        for c in message.columns
    )
    key = ("id",) if message.table == "t" else ()
    return Relation(
        message.oid, message.schema, message.table, message.replica_identity, columns, key
    )


def transcriber(row_now: Values | None = None, form: Form = OURS) -> Transcriber:
    context = SourceContext("1", "s", "db", form)
    made = Transcriber(context, relation, lambda _r, _k, _x: row_now, lambda _topic: 3, 50)
    made.clock(NOW_US)
    return made


def frame(payload: bytes, lsn: int) -> bytes:
    return b"w" + pack(">QQq", lsn, lsn, 0) + payload


def describe(table: str = "t", oid: int = 1) -> bytes:
    name = table.encode()
    columns = b"\1id\0" + pack(">Ii", 23, -1) + b"\0a\0" + pack(">Ii", 25, -1)
    return b"R" + pack(">I", oid) + b"public\0" + name + b"\0d" + pack(">H", 2) + columns


def row(*cells: bytes | str | None) -> bytes:
    out = pack(">H", len(cells))
    for cell in cells:
        if isinstance(cell, bytes):
            out += b"t" + pack(">I", len(cell)) + cell
        else:
            out += b"n" if cell is None else b"u"
    return out


def begin(commit_lsn: int) -> bytes:
    return b"B" + pack(">QqI", commit_lsn, 1_000_000, 7)


def commit(commit_lsn: int) -> bytes:
    return b"C" + pack(">BQQq", 0, commit_lsn, commit_lsn + 8, 1_000_000)


def insert(*cells: bytes | str | None) -> bytes:
    return b"I" + pack(">I", 1) + b"N" + row(*cells)


def update(*parts: bytes) -> bytes:
    return b"U" + pack(">I", 1) + b"".join(parts)


def transcribe(made: Transcriber, *payloads: bytes) -> dict[str, list[Record]]:
    for i, payload in enumerate(payloads):
        made.feed(frame(payload, 100 + i))
    return {
        topic: [record for record in records if isinstance(record, dict)]
        for topic, records in made.take().records.items()
    }


def parsed(record: Record) -> dict[str, Any]:
    assert record["value"] is not None
    value: dict[str, Any] = json.loads(record["value"])
    return value
