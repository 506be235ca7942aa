"""What the DDL trigger writes, as records, and what it cannot have written."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from cdc.capture import ddl_trigger
from cdc.capture.ddl_trigger import DdlTrigger
from cdc.events.ddl import PREFIX, parse
from cdc.lsn import Position
from cdc.protocol.messages import LogicalMessage

DOCUMENT = {
    "tag": "ALTER TABLE", "oid": 7, "schema": "öl", "table": "t", "renamed": None, "columns": [],
}  # fmt: skip


def said(document: Any, transactional: bool = True) -> LogicalMessage:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return LogicalMessage(transactional, 100, PREFIX, b"s3cret\n" + content)


def test_a_record_is_what_the_trigger_wrote_keyed_by_the_table() -> None:
    made = parse(said(DOCUMENT))
    assert made is not None
    assert made.secret == "s3cret"
    assert made.record(Position(200, 3), 5) == {
        "key": '{"schema":"öl","table":"t"}'.encode(),
        "value": json.dumps(DOCUMENT).encode(),
        "headers": [("position", b"00000000000000C800000003"), ("commit_ms", b"5")],
    }


def test_where_columns_must_not_leave_no_default_is_told() -> None:
    column = {"attnum": 2, "name": "ssn", "default": "'123-45'", "missing": "123-45"}
    made = parse(said({**DOCUMENT, "columns": [column]}))
    told = parse(said({**DOCUMENT, "columns": [column]}), values=False)
    assert made is not None
    assert told is not None
    hidden = {**column, "default": None, "missing": None}
    assert json.loads(told.document) == {**DOCUMENT, "columns": [hidden]}
    assert (told.secret, told.key) == (made.secret, made.key)
    dropped = parse(said({**DOCUMENT, "columns": None}), values=False)
    assert dropped is not None
    assert json.loads(dropped.document)["columns"] is None


@pytest.mark.parametrize(
    "document",
    [
        b"", b"garbage", b"\xff", [], {}, {**DOCUMENT, "schema": "\ud800"},
        *({**DOCUMENT, "columns": odd} for odd in ([1], "abc", 5, {"a": 1}, [[1]])),
    ],
)  # fmt: skip
def test_anything_else_is_none(document: Any) -> None:
    assert parse(said(document)) is None
    assert parse(said(DOCUMENT, transactional=False)) is None
    assert parse(said(DOCUMENT)._replace(content=json.dumps(DOCUMENT).encode())) is None


def test_the_trigger_is_known_by_its_secret_which_is_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = ["", "s3cret", "other"]
    monkeypatch.setattr(ddl_trigger, "asking", lambda _dsn: nullcontext())
    monkeypatch.setattr(ddl_trigger, "trigger_secret", lambda _conn: answers.pop(0))
    now = 0.0
    trigger = DdlTrigger("", lambda: now)
    assert not trigger.wrote("")  # there is no trigger yet
    now = 2.0
    assert not trigger.wrote("forged")
    assert trigger.wrote("s3cret")
    now = 2.5
    assert not any(trigger.wrote("forged") for _ in range(100))
    assert answers == ["other"]
    now = 4.0
    assert trigger.wrote("other")  # it was taken away and installed again
