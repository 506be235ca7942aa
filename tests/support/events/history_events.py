"""Changes as a table of history is given them, and what it then has to hold."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.types import LongType, StringType, StructType

COLUMNS = StructType().add("id", LongType()).add("name", StringType()).add("text", StringType())
START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    """``name`` None: the row is gone, or was never in the view. ``text`` None: left out."""

    lsn: int
    op: str
    id: int | None
    name: str | None = None
    text: str | None = "t"
    ordinal: int = 1


def at(lsn: int) -> datetime:
    return START + timedelta(seconds=lsn)


def expected(history: str, events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """What the table has to hold, made one event at a time."""
    changes: dict[int, list[Event]] = {}
    for event in sorted(set(events), key=lambda e: (e.lsn, e.ordinal)):
        ids = list(changes) if event.id is None else [event.id]
        for id_ in ids:
            held = changes.setdefault(id_, [])
            live = bool(held) and held[-1].name is not None
            if event.name is None and not live:
                continue
            text = event.text
            if event.name is not None and text is None:
                text = held[-1].text
            held.append(event._replace(id=id_, text=text))
    found: list[tuple[Any, ...]] = []
    for id_, held in changes.items():
        for one, after in zip(held, [*held[1:], None], strict=False):
            place, live = (id_, one.lsn, one.ordinal), one.name is not None
            if history == "log":
                op = one.op if live or one.op == "t" else "d"
                found.append((*place, op, one.name, one.text if live else None, naive(one.lsn)))
            elif live:
                to = after.lsn if after else None
                found.append((*place, one.name, one.text, to, naive(one.lsn),
                              None if to is None else naive(to), after is None))  # fmt: skip
    return sorted(found)


def naive(lsn: int) -> datetime:
    """As Spark gives a timestamp to Python, in the session's zone."""
    return at(lsn).astimezone().replace(tzinfo=None)
