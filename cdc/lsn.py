"""LSNs and positions: where in the write-ahead log something stands.

An LSN is an ``int`` (64 bits) everywhere inside Headwater and ``X/X`` text only at the edges.
A ``Position`` orders events: the LSN of the transaction's commit record, then the event's number
in that transaction, from 1. Ordinal 0 is a snapshot row read at that LSN, so a change committed
at the very same LSN wins over it. Row LSNs are neither unique nor monotonic and order nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_WIDE: Final = 1 << 32
_WIDE_MARK: Final = "X"
"""Stands behind every hexadecimal digit, so that a wide ordinal is above every other as text."""


class Position(NamedTuple):
    """``(commit_lsn, ordinal)``; compares like the tuple it is."""

    commit_lsn: int
    ordinal: int

    def hex(self) -> str:
        """Text whose order is the position's: 16 hex digits of LSN, 8 of ordinal; of an ordinal of
        more than 32 bits, which no event has but mirrors do, ``X`` and 14 digits."""
        if self.ordinal < _WIDE:
            return f"{self.commit_lsn:016X}{self.ordinal:08X}"
        return f"{self.commit_lsn:016X}{_WIDE_MARK}{self.ordinal:014X}"


def parse_position(digits: bytes) -> Position:
    """What ``Position.hex`` wrote; raises ``ValueError`` on anything else."""
    wide = digits[16:17] == _WIDE_MARK.encode()
    if len(digits) != (31 if wide else 24):
        raise ValueError(f"not a position: {digits!r}")
    return Position(int(digits[:16], 16), int(digits[17 if wide else 16 :], 16))


def parse_lsn(text: str) -> int:
    """``'16/B374D848'`` to an integer; raises ``ValueError`` on anything else."""
    high, separator, low = text.partition("/")
    if not separator or not 1 <= len(high) <= 8 or not 1 <= len(low) <= 8:
        raise ValueError(f"not an LSN: {text!r}")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """An integer LSN in PostgreSQL's own notation."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
