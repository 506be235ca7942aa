"""The wire in COPY BOTH: bytes in, whole frames out, found in place instead of copied. Pure.

A message is its kind, its size (which counts itself but not the kind) and its body. Frames are the
bodies of CopyData messages; whatever else comes ends a read, and is handed on by itself.
https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from cdc.errors import ProtocolError

COPY_BOTH: Final = ord("W")
COPY_DATA: Final = ord("d")
ERROR: Final = ord("E")
NOTICE: Final = ord("N")
PARAMETER_STATUS: Final = ord("S")
COPY_DONE: Final = b"c\0\0\0\4"

PADDING: Final = bytes(32)
"""Behind the last frame of a buffer: who looks at a malformed one in place never looks outside."""

_HEAD: Final = Struct(">BI")
_KEEPALIVE_SIZE: Final = 4 + 18
"""Of a keepalive's message; XLogData has a header of 25 bytes alone."""


class Arrived:
    """Frames that have arrived, in order, in one buffer. ``keepalives`` are the indices of those
    that are no XLogData."""

    __slots__ = ("buffer", "ends", "keepalives", "starts")

    def __init__(
        self, buffer: bytes, starts: Sequence[int], ends: Sequence[int], keepalives: Sequence[int]
    ) -> None:
        self.buffer = buffer
        self.starts = starts
        self.ends = ends
        self.keepalives = keepalives

    @classmethod
    def of(cls, frames: Sequence[bytes]) -> Arrived:
        """These frames."""
        ends = list(accumulate(map(len, frames)))
        starts = [0, *ends[:-1]] if frames else []
        keepalives = [i for i, frame in enumerate(frames) if len(frame) + 4 == _KEEPALIVE_SIZE]
        return cls(b"".join([*frames, PADDING]), starts, ends, keepalives)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.buffer[self.starts[index] : self.ends[index]]

    def between(self, start: int, stop: int) -> Iterator[bytes]:
        """Frames from ``start`` up to, not including, ``stop``."""
        buffer = self.buffer
        for begin, end in zip(self.starts[start:stop], self.ends[start:stop], strict=True):
            yield buffer[begin:end]

    def part(self, start: int, stop: int) -> Arrived:
        """XLogData frames from ``start`` up to, not including, ``stop``, in the same buffer."""
        return Arrived(self.buffer, self.starts[start:stop], self.ends[start:stop], ())


class Message(NamedTuple):
    """What is no CopyData."""

    kind: int
    body: bytes


class Inbox:
    """Bytes as they come, until the message that they begin is whole."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._needed = _HEAD.size

    def add(self, data: bytes) -> None:
        """More bytes."""
        self._parts.append(data)
        self._held += len(data)

    def frames(self) -> Arrived:
        """All whole frames ahead of the first other message. Raises ``ProtocolError``."""
        starts: list[int] = []
        ends: list[int] = []
        keepalives: list[int] = []
        if self._held < self._needed:
            return Arrived(PADDING, starts, ends, keepalives)
        self._parts.append(PADDING)
        data = b"".join(self._parts)
        at, size, held, unpack = 0, 0, self._held, _HEAD.unpack_from
        needed = _HEAD.size
        while at + 5 <= held:
            kind, size = unpack(data, at)
            if kind != COPY_DATA:
                break
            end = at + 1 + size
            if end > held:
                needed = 1 + size
                break
            if size <= _KEEPALIVE_SIZE:
                _check(kind, size)
                keepalives.append(len(starts))
            starts.append(at + 5)
            ends.append(end)
            at = end
        self._keep(data[at:held], needed)
        return Arrived(data, starts, ends, keepalives)

    def message(self) -> Message | None:
        """The next message, if it is whole and no frame. Raises ``ProtocolError``."""
        if self._held < self._needed:
            return None
        data = b"".join(self._parts)
        kind, size = _HEAD.unpack_from(data)
        if kind == COPY_DATA:
            return None
        _check(kind, size)
        if len(data) <= size:
            self._keep(data, 1 + size)
            return None
        self._keep(data[1 + size :], _HEAD.size)
        return Message(kind, data[5 : 1 + size])

    def _keep(self, data: bytes, needed: int) -> None:
        self._parts = [data]
        self._held = len(data)
        self._needed = needed


def _check(kind: int, size: int) -> None:
    """A size that no message of its kind can have means that the place in the stream is lost."""
    if size < 4 or (kind == COPY_DATA and size != _KEEPALIVE_SIZE):
        raise ProtocolError(f"a message of kind {kind:#x} and size {size} on the replication wire")


def copy_data(frame: bytes) -> bytes:
    """A CopyData message that carries ``frame``."""
    return _HEAD.pack(COPY_DATA, 4 + len(frame)) + frame


def query(command: str) -> bytes:
    """A Query message: a command of the simple protocol."""
    text = command.encode() + b"\0"
    return _HEAD.pack(ord("Q"), 4 + len(text)) + text


def error_fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse by their one-letter names.

    https://www.postgresql.org/docs/current/protocol-error-fields.html
    """
    fields = body.rstrip(b"\0").split(b"\0")
    return {field[:1].decode(): field[1:].decode(errors="replace") for field in fields if field}
