"""Dead letters of capture and of views as people and machines get to see them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from cdc.errors import UsageError
from cdc.events.capture_dead_letters import DeadLetter
from cdc.lsn import Position
from headwater.cli.common.format import age
from headwater.cli.common.records import pretty
from headwater.cli.dead_letters import capture, topic_views
from headwater.cli.dead_letters.display import described, document, fields, table
from headwater.cli.dead_letters.entry import Entry, chosen
from jobs.without_mirrors.dead_letters.letter import BEHIND, Letter, row_letter

EVENT = b'{"after": {"id": 12345678901234567890123, "f": 1e+20, "name": "%s"}}' % (b"x" * 3_000)
LARGE = DeadLetter(
    "shop.public.item",
    b'{"id":1,"at":"b"}',
    EVENT,
    [("__debezium.newkey", b'{"id":2}')],
    Position(0x231E2A8, 1),
    1_795_237_510_651,
    "3100 bytes, above the limit of 2000",
)
POSITION = "000000000231E2A800000001"
POISON = Letter(
    "shop.public.t", 1, 17, b'{"id":1}', b"secret", 6, Position(7, 2), 1_000, 2_000, "too much"
)
BEHIND_IT = POISON._replace(offset=18, position=Position(8, 1), cause="")
FOREIGN = POISON._replace(partition=0, key=None, value=b"\xff", size=1, position=None)
ROW = row_letter("v", b'{"id":"7"}', Position(9, 4), 1_000, 2_000, "refused")
OTHER = POISON._replace(topic="shop.public.u", offset=3)
OF_VIEW = [topic_views.told("v", one) for one in (POISON, BEHIND_IT, FOREIGN, ROW)]
OF_DATABASE = Entry(
    "w-row-0123456789abcdef", "w", "w", '{"id": "7"}', "22012", datetime(2026, 1, 1, tzinfo=UTC),
    value=b'{"id": "7"}', values=("7",),
)  # fmt: skip


def rendered(what: RenderableType, width: int = 200) -> str:
    stream = StringIO()
    Console(file=stream, width=width).print(what)
    return stream.getvalue()


def cells(found: list[Entry], every: bool = False) -> list[list[str]]:
    lines = rendered(table(found, every)).splitlines()[2:]
    return [re.split("  +", line.strip()) for line in lines]


def test_one_table_has_what_capture_and_views_of_either_engine_left() -> None:
    lines = cells([*OF_VIEW, OF_DATABASE, capture.told(LARGE)])
    assert [[*line[:4], line[5]] for line in lines] == [
        ["shop.public.t-1-17", "v", "shop.public.t", "id=1", "too much; 1 more of its key"],
        ["shop.public.t-0-17", "v", "shop.public.t", "-", "too much"],
        [ROW.id, "v", "the view", "id=7", "refused"],
        [OF_DATABASE.id, "w", "the view", "id=7", "22012"],
        [POSITION, "(capture)", "shop.public.item", "id=1, at=b", LARGE.cause],
    ]


def test_every_event_has_a_line_if_asked_for() -> None:
    lines = cells(OF_VIEW, every=True)
    assert [line[0] for line in lines] == [one.id for one in OF_VIEW]
    assert lines[1][-1] == BEHIND


def test_rows_of_a_snapshot_share_a_position_and_are_lines_apart() -> None:
    found = [capture.told(LARGE, number) for number in (1, 2)]
    assert [line[0] for line in cells(found)] == [POSITION, f"{POSITION}-2"]
    assert all(capture.ID.fullmatch(one.id) for one in found)
    assert not any(capture.ID.fullmatch(one.id) for one in (*OF_VIEW, OF_DATABASE))


def test_a_position_and_the_cause_are_there_on_a_narrow_terminal() -> None:
    shown = rendered(table([capture.told(LARGE)]), 80)
    assert POSITION in shown
    assert "limit of" in shown


def test_missing_pieces_are_told() -> None:
    entry = capture.told(LARGE._replace(topic="shop.outbox.orders", key=None, missing=2))
    (line,) = cells([entry])
    assert (line[2], line[3]) == ("shop.outbox.orders", "-")
    assert line[-1].endswith("; 2 pieces missing")


def test_fields_have_a_label_each() -> None:
    lines = rendered(fields(capture.told(LARGE))).splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "id", "view", "of", "key", "since", "cause", "position", "missing", "size",
        "header __debezium.newkey",
    ]  # fmt: skip
    assert lines[8].split(None, 1)[1].rstrip() == f"3.1 kB ({len(EVENT):,} bytes)"


def test_a_dead_letter_of_a_view_says_how_to_apply_it_again() -> None:
    assert "then run: headwater dead-letters retry v" in rendered(fields(OF_VIEW[0]), 400)
    assert "retry" not in rendered(fields(capture.told(LARGE)), 400)
    of_alert = rendered(fields(OF_DATABASE._replace(view="alerts.dear")), 400)
    assert "correct the cause (the receiver of the webhook), then run: headwater" in of_alert


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
    one = capture.told(LARGE._replace(key=value, cause="\x1b[2J", value=value))
    shown = pretty(value)[0] + rendered(table([one]))
    assert "\x1b" not in shown + rendered(fields(one))
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
    one = capture.told(LARGE._replace(value=value))
    text = document(one)
    parsed = json.loads(text)
    assert (parsed["encoding"], parsed["value"]) == (encoding, read)
    assert {name: parsed[name] for name in described(one)} == described(one)
    assert encoding != "json" or value.decode() in text


def test_the_list_of_capture_is_read_again_only_when_the_topic_has_other_records() -> None:
    reads: list[capture.Span] = []
    key = b"7"

    def read(span: capture.Span) -> list[Entry]:
        reads.append(span)
        return [capture.told(LARGE._replace(key=key), span.end)]

    listing, span = capture.Listing(), capture.Span("shop.__dead_letters", "id", 0, 1)
    (found,) = listing.at(span, read)
    assert (found.key, found.value) == ("7", b"")
    assert listing.at(span, read) == [found]
    assert reads == [span]
    others = [span._replace(end=2), span._replace(start=1), span._replace(topic_id="other")]
    for other in others:
        listing.at(other, read)
    assert reads == [span, *others]
    assert listing.at(None, read) == []
    key = b"\0\0\0\0\1x"  # while the registry does not answer
    for _ in range(2):
        listing.at(span, read)
    assert reads == [span, *others, span, span]


def test_what_a_machine_gets_of_the_list() -> None:
    assert described(capture.listed(capture.told(LARGE))) == {
        "id": POSITION,
        "view": None,
        "of": "shop.public.item",
        "key": '{"id":1,"at":"b"}',
        "since": "2026-11-21T05:05:10.651+00:00",
        "cause": "3100 bytes, above the limit of 2000",
        "position": POSITION,
        "bytes": len(EVENT),
        "missing": 0,
    }
    assert described(OF_VIEW[2])["position"] is None
    assert "secret" not in str([described(one) for one in OF_VIEW])


def test_a_key_that_tables_share_is_to_be_told_with_its_topic() -> None:
    found = [*OF_VIEW, topic_views.told("v", OTHER)]
    assert chosen("v", found, ["shop.public.u:id=1"]) == found[-1:]
    assert chosen("v", found, ['v:{"id":"7"}', "id=7"]) == [OF_VIEW[3]]
    assert chosen("v", OF_VIEW, ["id=1"]) == OF_VIEW[:2]
    assert chosen("v", found, [FOREIGN.id]) == [OF_VIEW[2]]
    with pytest.raises(UsageError, match="parked for several tables"):
        chosen("v", found, ["id=1"])
    with pytest.raises(UsageError, match="id=8 is not parked"):
        chosen("v", found, ["id=8"])


def test_ages_are_short() -> None:
    assert [age(s) for s in (-1, 59, 60, 7200, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]
