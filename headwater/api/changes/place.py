"""Where a client is in a stream, as the ``id`` of an event says it. Pure.

    s1.FILTER.SPOOL.ROW                        in the snapshot: the next row of that spool
    l1.FILTER.TOPIC.LSN.OFFSET-OFFSET-...      in the log: the next offset of each partition
                                               (of a view: the next number, of one partition)

An id names everything that was sent up to its event, and nothing else: a client that goes on from
it misses nothing and gets nothing twice, whatever the order in which partitions were read. ``LSN``
is the snapshot's: what was committed below it is in the rows. ``TOPIC`` is Kafka's id of the topic,
so that offsets of one that was made anew are never taken for those of the old one. ``FILTER`` tells
ids of different filters apart. Numbers are written to base 36, the LSN in hexadecimal.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST: Final = 20_000
"""A thousand partitions, each with an offset of thirteen digits, and room to spare."""
_SNAPSHOT: Final = re.compile(r"s1\.([0-9a-f]{8})\.([0-9a-f]{16})\.([0-9a-z]{1,13})")
_LOG: Final = re.compile(
    r"l1\.([0-9a-f]{8})\.([A-Za-z0-9_-]{1,64})\.([0-9a-f]{1,16})\.([0-9a-z]{1,13}(?:-[0-9a-z]{1,13})*)"
)
_LARGEST: Final = 1 << 63


class PlaceError(ValueError):
    """It is no id of an event of this server."""


class SnapshotPlace(NamedTuple):
    """``row`` is the next one, from 0; the number of rows when all were sent."""

    filter_id: str
    spool: str
    row: int

    def text(self) -> str:
        return f"s1.{self.filter_id}.{self.spool}.{base36(self.row)}"


class LogPlace(NamedTuple):
    """``offsets`` are the next ones, by partition."""

    filter_id: str
    topic_id: str
    lsn: int
    offsets: tuple[int, ...]

    def text(self) -> str:
        return f"{self.prefix}{'-'.join(map(base36, self.offsets))}"

    @property
    def prefix(self) -> str:
        """All of the text but the offsets."""
        return f"l1.{self.filter_id}.{self.topic_id}.{self.lsn:x}."


Place = SnapshotPlace | LogPlace


def parse_place(text: str) -> Place:
    """What ``text()`` of a place wrote. Raises ``PlaceError``."""
    if len(text) <= _LONGEST:
        if found := _SNAPSHOT.fullmatch(text):
            return SnapshotPlace(found[1], found[2], _number(found[3]))
        if found := _LOG.fullmatch(text):
            offsets = tuple(map(_number, found[4].split("-")))
            return LogPlace(found[1], found[2], int(found[3], 16), offsets)
    raise PlaceError("it is not the id of an event of this server")


def base36(number: int) -> str:
    """A number that is not negative, in small letters and digits."""
    if number < 36:
        return _DIGITS[number]
    found = ""
    while number:
        number, digit = divmod(number, 36)
        found = _DIGITS[digit] + found
    return found


def _number(text: str) -> int:
    found = int(text, 36)
    if found >= _LARGEST or base36(found) != text:
        raise PlaceError("a number in it is out of range, or not written as this server does")
    return found
