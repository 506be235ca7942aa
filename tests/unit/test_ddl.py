"""What the DDL trigger writes, as records, and what it cannot have written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.events.ddl import PREFIX, record
from cdc.lsn import Position
from cdc.protocol.messages import LogicalMessage

DOCUMENT = {
    "tag": "ALTER TABLE", "oid": 7, "schema": "öl", "table": "t", "renamed": None, "columns": [],
}  # fmt: skip


def said(document: Any, transactional: bool = True) -> LogicalMessage:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return LogicalMessage(transactional, 100, PREFIX, content)


def test_a_record_is_what_the_trigger_wrote_keyed_by_the_table() -> None:
    made = record(said(DOCUMENT), Position(200, 3), 5)
    assert made == {
        "key": '{"schema":"öl","table":"t"}'.encode(),
        "value": json.dumps(DOCUMENT).encode(),
        "timestamp": 5,
        "headers": [("position", b"00000000000000C800000003")],
    }


@pytest.mark.parametrize(
    "document", [b"", b"garbage", b"\xff", [], {}, {**DOCUMENT, "schema": "\ud800"}]
)
def test_anything_else_is_none(document: Any) -> None:
    assert record(said(document), Position(200, 3), 5) is None
    assert record(said(DOCUMENT, transactional=False), Position(200, 3), 5) is None
