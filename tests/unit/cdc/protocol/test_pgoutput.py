"""pgoutput: each message whole, truncated at every byte, with trailing bytes, and mutated."""

from __future__ import annotations

from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Origin,
    RelationColumn,
    RelationMessage,
    Truncate,
    TypeMessage,
    Update,
    Values,
)
from cdc.protocol.pgoutput import decode


def row(*values: bytes | str | None) -> bytes:
    """A TupleData; the text "u" stands for unchanged."""
    cells = []
    for value in values:
        if value is None:
            cells.append(b"n")
        elif isinstance(value, str):
            cells.append(b"u")
        else:
            cells.append(b"t" + pack(">I", len(value)) + value)
    return pack(">H", len(values)) + b"".join(cells)


RELATION = (
    b"R" + pack(">I", 16400) + b"shop\0" + "bestellungen ü\0".encode() + b"f" + pack(">H", 2)
    + b"\x01id\0" + pack(">Ii", 20, -1)
    + b"\x00price\0" + pack(">Ii", 1700, 655366)
)  # fmt: skip

MESSAGES: list[tuple[str, bytes, Message]] = [
    (
        "begin",
        b"B" + pack(">QqI", 0x16B374D848, 5, 743),
        Begin(0x16B374D848, POSTGRES_EPOCH_US + 5, 743),
    ),
    ("commit", b"C" + pack(">BQQq", 0, 100, 148, -7), Commit(100, 148, POSTGRES_EPOCH_US - 7)),
    ("origin", b"O" + pack(">Q", 77) + b"upstream\0", Origin(77, "upstream")),
    (
        "relation",
        RELATION,
        RelationMessage(
            16400,
            "shop",
            "bestellungen ü",
            "f",
            (RelationColumn("id", 20, -1, True), RelationColumn("price", 1700, 655366, False)),
        ),
    ),
    (
        "relation of pg_catalog without columns",
        b"R" + pack(">I", 1) + b"\0t\0d" + pack(">H", 0),
        RelationMessage(1, "pg_catalog", "t", "d", ()),
    ),
    ("type", b"Y" + pack(">I", 99999) + b"shop\0mood\0", TypeMessage(99999, "shop", "mood")),
    (
        "insert",
        b"I" + pack(">I", 16400) + b"N" + row(b"1", None, b"", "u"),
        Insert(16400, [b"1", None, b"", UNCHANGED]),
    ),
    (
        "insert that ends in null",
        b"I" + pack(">I", 1) + b"N" + row(b"1", None),
        Insert(1, [b"1", None]),
    ),
    ("insert without columns", b"I" + pack(">I", 1) + b"N" + row(), Insert(1, [])),
    (
        "update without an old row",
        b"U" + pack(">I", 1) + b"N" + row(b"1", "u"),
        Update(1, None, None, [b"1", UNCHANGED]),
    ),
    (
        "update with an old key",
        b"U" + pack(">I", 1) + b"K" + row(b"1", None) + b"N" + row(b"2", b"x"),
        Update(1, Image.KEY, [b"1", None], [b"2", b"x"]),
    ),
    (
        "update with the old row",
        b"U" + pack(">I", 1) + b"O" + row(b"1", b"w") + b"N" + row(b"1", b"x"),
        Update(1, Image.FULL, [b"1", b"w"], [b"1", b"x"]),
    ),
    (
        "delete by key",
        b"D" + pack(">I", 1) + b"K" + row(b"1", None),
        Delete(1, Image.KEY, [b"1", None]),
    ),
    (
        "delete of a row",
        b"D" + pack(">I", 1) + b"O" + row(b"1", b"x"),
        Delete(1, Image.FULL, [b"1", b"x"]),
    ),
    ("truncate", b"T" + pack(">IBII", 2, 3, 7, 8), Truncate((7, 8), True, True)),
    (
        "message in a transaction",
        b"M" + pack(">BQ", 1, 500) + b"audit\0" + pack(">I", 3) + b"\0\xffz",
        LogicalMessage(True, 500, "audit", b"\0\xffz"),
    ),
    (
        "empty message outside of any",
        b"M" + pack(">BQ", 0, 500) + b"\0" + pack(">I", 0),
        LogicalMessage(False, 500, "", b""),
    ),
]
TABLE = pytest.mark.parametrize(
    ("payload", "message"), [(p, m) for _, p, m in MESSAGES], ids=[name for name, _, _ in MESSAGES]
)


@TABLE
def test_a_whole_message_is_decoded(payload: bytes, message: Message) -> None:
    assert decode(payload) == message


@TABLE
def test_the_message_may_stand_behind_a_frame_header(payload: bytes, message: Message) -> None:
    assert decode(b"w" * 25 + payload, 25) == message


@TABLE
def test_a_message_cut_at_any_byte_is_a_protocol_error(payload: bytes, message: Message) -> None:
    for length in range(len(payload)):
        with pytest.raises(ProtocolError):
            decode(payload[:length])
    assert decode(payload) == message


@TABLE
def test_trailing_bytes_are_a_protocol_error(payload: bytes, message: Message) -> None:
    for extra in (b"\0", b"N", b"\0\0\0\0\0"):
        with pytest.raises(ProtocolError):
            decode(payload + extra)
    assert decode(payload) == message


@given(st.sampled_from([p for _, p, _ in MESSAGES]), st.data())
def test_a_mutated_message_is_decoded_or_refused(payload: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(payload) - 1))
    mutated = payload[:at] + data.draw(st.binary(max_size=4)) + payload[at + 1 :]
    with suppress(ProtocolError):  # and nothing else
        decode(mutated)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(payload: bytes) -> None:
    with suppress(ProtocolError):
        decode(payload)


VALUES = st.lists(st.one_of(st.none(), st.binary(max_size=30), st.just("u")), max_size=8)


@given(VALUES)
def test_any_row_comes_back_as_it_was_sent(cells: list[bytes | str | None]) -> None:
    expected: Values = [UNCHANGED if isinstance(cell, str) else cell for cell in cells]
    assert decode(b"I" + pack(">I", 5) + b"N" + row(*cells)) == Insert(5, expected)


def test_an_update_whose_images_differ_in_width_is_refused() -> None:
    with pytest.raises(ProtocolError, match="1 old and 2 new"):
        decode(b"U" + pack(">I", 1) + b"O" + row(b"1") + b"N" + row(b"1", b"2"))
