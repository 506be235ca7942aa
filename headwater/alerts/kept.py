"""What is kept with the place in a partition, in one word: what is done beyond it, and what the
alert tells of itself. Pure.

A place ends at the oldest message that waits. Behind it much may be delivered, which after a crash
is not sent again where it is known: all below ``reached`` but what is ``left``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

_LONGEST: Final = 2_000
"""In characters; Kafka takes 4,096 unless told otherwise."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Kept(NamedTuple):
    """``at_ms`` is when a message was taken last, since 1970, 0 before one was; ``waiting`` counts
    messages that are not done. Offsets below ``reached`` are done but for those ``left``."""

    at_ms: int = 0
    waiting: int = 0
    reached: int = 0
    left: Collection[int] = ()
    """From the lowest on, where it is to be written."""

    def is_done(self, offset: int) -> bool:
        return offset < self.reached and offset not in self.left

    @property
    def note(self) -> str:
        """As one word. Where that is too long for all that is left, it says less of what is
        done."""
        words, size, before = list[str](), 0, 0
        reached = self.reached
        for offset in self.left:
            word = _short(offset - before)
            size += len(word) + 1
            if size > _LONGEST:
                reached = offset
                break
            words.append(word)
            before = offset
        return f"{self.at_ms}:{self.waiting}:{reached}:{'.'.join(words)}"


def kept(note: str) -> Kept | None:
    """What such a word says; None of one that is none."""
    try:
        at_ms, waiting, reached, left = note.split(":")
        offsets, last = list[int](), 0
        for word in left.split(".") if left else ():
            last += int(word, 36)
            offsets.append(last)
        return Kept(int(at_ms), int(waiting), int(reached), frozenset(offsets))
    except ValueError:
        return None


def _short(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
