"""Dead letters as people and machines get to see them."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from cdc.events.dead_letters import DeadLetter
from cdc.lsn import Position
from headwater.cli.common.records import pretty
from headwater.cli.dead_letters.capture_display import described, document, fields, overview

EVENT = b'{"after": {"id": 12345678901234567890123, "f": 1e+20, "name": "%s"}}' % (b"x" * 3_000)
LETTER = DeadLetter(
    "shop.public.item",
    b'{"id":1,"at":"b"}',
    EVENT,
    [("__debezium.newkey", b'{"id":2}')],
    Position(0x231E2A8, 1),
    1_795_237_510_651,
    "3100 bytes, above the limit of 2000",
)
POSITION = "000000000231E2A800000001"


def rendered(what: RenderableType, width: int = 140) -> str:
    stream = StringIO()
    Console(file=stream, width=width).print(what)
    return stream.getvalue()


def test_the_list_says_what_and_why_on_one_line() -> None:
    line = rendered(overview([LETTER], "shop")).splitlines()[3]
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells == [
        POSITION, "public.item", "id=1, at=b", "3.1 kB", "2026-11-21 05:05:10",
        "3100 bytes, above the limit of 2000",
    ]  # fmt: skip


def test_a_position_is_whole_on_a_narrow_terminal() -> None:
    assert POSITION in rendered(overview([LETTER], "shop"), 80)


def test_missing_pieces_and_a_record_without_a_key_are_told() -> None:
    letter = LETTER._replace(topic="shop.outbox.orders", key=None, missing=2)
    shown = rendered(overview([letter], "shop"))
    assert "outbox.orders" in shown
    assert "; 2 pieces missing" in shown


def test_fields_have_a_label_each() -> None:
    lines = rendered(fields(LETTER, "shop")).splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "position", "table", "topic", "key", "time", "size", "cause", "header __debezium.newkey",
    ]  # fmt: skip
    assert lines[5].split(None, 1)[1].rstrip() == f"3.1 kB ({len(EVENT):,} bytes)"


def test_a_terminal_gets_the_event_laid_out_and_long_texts_cut() -> None:
    text, cut = pretty(EVENT)
    assert cut
    after = json.loads(text)["after"]
    assert after["id"] == 12345678901234567890123
    assert after["name"] == f"{'x' * 80}… (3,000 characters)"
    assert text.startswith('{\n  "after": {\n    "id"')
    assert pretty(b'{"a": "b"}') == ('{\n  "a": "b"\n}', False)


@pytest.mark.parametrize("value", [b"\x1b[2Jgone", b'{"a": "\\u001b[2Jgone"}'])
def test_nothing_that_a_terminal_would_obey_gets_there(value: bytes) -> None:
    letter = LETTER._replace(key=value, cause="\x1b[2J", value=value)
    shown = pretty(value)[0] + rendered(overview([letter], "shop"))
    assert "\x1b" not in shown + rendered(fields(letter, "shop"))
    assert "gone" in shown


@pytest.mark.parametrize(
    ("value", "encoding", "read"),
    [
        (EVENT, "json", json.loads(EVENT)),
        (b"null", "json", None),
        (b"NaN", "text", "NaN"),
        (b"a plain text", "text", "a plain text"),
        (b"\xff\x00", "base64", "/wA="),
    ],
)
def test_the_json_of_a_record_holds_its_value_as_it_was_written(
    value: bytes, encoding: str, read: object
) -> None:
    letter = LETTER._replace(value=value)
    text = document(letter, "shop")
    parsed = json.loads(text)
    assert (parsed["encoding"], parsed["value"]) == (encoding, read)
    assert parsed["headers"] == {"__debezium.newkey": '{"id":2}'}
    assert {name: parsed[name] for name in described(letter, "shop")} == described(letter, "shop")
    assert encoding != "json" or value.decode() in text


def test_what_a_machine_gets_of_the_list() -> None:
    assert described(LETTER, "shop") == {
        "position": POSITION,
        "table": "public.item",
        "topic": "shop.public.item",
        "key": '{"id":1,"at":"b"}',
        "bytes": len(EVENT),
        "missing": 0,
        "cause": "3100 bytes, above the limit of 2000",
        "time": "2026-11-21T05:05:10.651+00:00",
    }
