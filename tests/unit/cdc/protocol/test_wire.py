"""The wire in COPY BOTH: the same frames, however their bytes come in."""

from __future__ import annotations

import random
from struct import pack

import pytest

from cdc.errors import ProtocolError
from cdc.protocol.wire import (
    COPY_BOTH,
    COPY_DATA,
    ERROR,
    Arrived,
    Inbox,
    Message,
    copy_data,
    error_fields,
    query,
)

KEEPALIVE = b"k" + bytes(17)
FRAMES = [b"w" + bytes(24) + b"B" * 20, KEEPALIVE, b"w" + b"x" * 500, b"w" * 25, KEEPALIVE]
ENDING = b"E" + pack(">I", 4 + 23) + b"SFATAL\0C57P01\0Mgone\0\0".ljust(23, b"\0")


def message(kind: int, body: bytes) -> bytes:
    return pack(">BI", kind, 4 + len(body)) + body


def drained(inbox: Inbox) -> tuple[list[bytes], list[bytes], list[Message]]:
    """Frames, those among them that are keepalives, and other messages."""
    frames: list[bytes] = []
    keepalives: list[bytes] = []
    others: list[Message] = []
    while True:
        arrived = inbox.frames()
        frames.extend(arrived.between(0, len(arrived)))
        keepalives.extend(arrived[i] for i in arrived.keepalives)
        other = inbox.message()
        if other is not None:
            others.append(other)
        elif not arrived:
            return frames, keepalives, others


STREAM = message(COPY_BOTH, b"\0\0\0") + b"".join(map(copy_data, FRAMES)) + ENDING


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 26, 100, 511, len(STREAM)])
def test_frames_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    inbox = Inbox()
    frames: list[bytes] = []
    keepalives: list[bytes] = []
    others: list[Message] = []
    for at in range(0, len(STREAM), size):
        inbox.add(STREAM[at : at + size])
        some = drained(inbox)
        frames += some[0]
        keepalives += some[1]
        others += some[2]
    assert frames == FRAMES
    assert keepalives == [KEEPALIVE, KEEPALIVE]
    assert [other.kind for other in others] == [COPY_BOTH, ERROR]
    assert error_fields(others[1].body) == {"S": "FATAL", "C": "57P01", "M": "gone"}


@pytest.mark.parametrize("seed", range(20))
def test_any_frames_in_any_pieces(seed: int) -> None:
    rng = random.Random(seed)
    frames = [b"w" + rng.randbytes(24 + rng.choice((0, 1, 40, 70_000))) for _ in range(50)]
    wire = b"".join(map(copy_data, frames))
    inbox, found, at = Inbox(), [], 0
    while at < len(wire):
        step = rng.choice((1, 100, 4096, 65_536))
        inbox.add(wire[at : at + step])
        at += step
        found += drained(inbox)[0]
    assert found == frames


def test_a_notice_between_frames_parts_two_reads() -> None:
    inbox = Inbox()
    inbox.add(copy_data(FRAMES[0]) + message(ord("N"), b"Mhello\0\0") + copy_data(FRAMES[2]))
    assert list(inbox.frames().between(0, 1)) == [FRAMES[0]]
    assert inbox.message() == Message(ord("N"), b"Mhello\0\0")
    assert inbox.message() is None
    assert inbox.frames()[0] == FRAMES[2]


@pytest.mark.parametrize(
    "wire", [pack(">BI", COPY_DATA, 3), pack(">BI", COPY_DATA, 12) + bytes(8), pack(">BI", 0, 0)]
)
def test_a_size_that_cannot_be_ends_the_session_loudly(wire: bytes) -> None:
    inbox = Inbox()
    inbox.add(wire)
    with pytest.raises(ProtocolError, match="on the replication wire"):
        drained(inbox)


def test_arrived_frames_are_what_they_were_made_of() -> None:
    arrived = Arrived.of(FRAMES)
    assert [arrived[i] for i in range(len(arrived))] == FRAMES
    assert arrived.keepalives == [1, 4]
    part = arrived.part(2, 4)
    assert list(part.between(0, len(part))) == FRAMES[2:4]
    assert not Arrived.of([])


def test_what_is_sent_has_the_protocols_form() -> None:
    assert query("X") == b"Q\0\0\0\6X\0"
    assert copy_data(b"abc") == b"d\0\0\0\7abc"
