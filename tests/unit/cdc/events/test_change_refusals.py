"""Messages that no transaction of PostgreSQL's has: protocol errors, without a server."""

from __future__ import annotations

from struct import pack

import pytest

from cdc.errors import ProtocolError
from tests.support.events.transcribed import (
    begin,
    commit,
    describe,
    insert,
    row,
    transcribe,
    transcriber,
    update,
)


@pytest.mark.parametrize(
    "payloads",
    [
        (insert(b"1", b"x"),),
        (begin(200), insert(b"1", b"x")),
        (begin(200), begin(300)),
        (commit(200),),
        (begin(200), commit(300)),
        (b"O" + pack(">Q", 1) + b"o\0",),
    ],
    ids=["row alone", "row undescribed", "begin twice", "commit alone", "other commit", "origin"],
)
def test_messages_out_of_order_are_protocol_errors(payloads: tuple[bytes, ...]) -> None:
    with pytest.raises(ProtocolError):
        transcribe(transcriber(), *payloads)


@pytest.mark.parametrize(
    "payload",
    [
        insert(b"1"),
        insert(b"1", b"x", b"y"),
        update(b"N", row(b"1")),
        update(b"K", row(b"1", None, None), b"N", row(b"2", b"x", b"y")),
        b"D" + pack(">I", 1) + b"K" + row(b"1"),
    ],
    ids=["short insert", "long insert", "short update", "long update", "short delete"],
)
def test_a_row_of_another_width_than_its_description_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"in public\.t, whose description has 2\. .*15\.1"):
        transcribe(transcriber(), begin(200), describe(), payload)
