"""Events of one topic, ours against Debezium's: what differs, and whether that is on purpose.

``DELIBERATE`` names each kind of difference that ``docs/events.md`` lists and that may be seen
between two streams; whatever no rule knows is a fault, of ours or of the list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from itertools import zip_longest
from typing import Any, Final, NamedTuple

UNAVAILABLE: Final = "__debezium_unavailable_value"
OURS: Final = ("commit_lsn", "ordinal", "schema_id", "unchanged")
CLOCKS: Final = ("ts_ms", "ts_us", "ts_ns")
MISSING: Final = "(no such field)"
OMITTED: Final = "the column is omitted"
HEARTBEAT: Final = "headwater.heartbeat"


class Emitted(NamedTuple):
    """A record with its JSON parsed."""

    key: Any
    value: Any
    headers: dict[str, str]


class Difference(NamedTuple):
    """One field of one event. ``change`` is the event's op."""

    topic: str
    place: int
    field: str
    change: str
    theirs: Any
    ours: Any


Rule = Callable[[Difference], bool]


def _of_row(difference: Difference) -> bool:
    return difference.field.startswith(("before.", "after."))


def _filled(difference: Difference) -> bool:
    """Debezium fills NOT NULL columns of a key-only before."""
    return (
        difference.change == "d"
        and difference.field.startswith("before.")
        and difference.ours is None
        and difference.theirs in (0, "", False, "1970-01-01Z")
    )


def _read_again(difference: Difference) -> bool:
    """Behind a key change we read what Debezium leaves out."""
    return (
        difference.change == "c"
        and difference.theirs == UNAVAILABLE
        and isinstance(difference.ours, str)
    )


def _outside(difference: Difference) -> bool:
    """A message outside of transactions has the time it was seen, theirs that of a commit."""
    return difference.change == "m-outside" and difference.field in {
        "source.ts_ms",
        "source.ts_us",
        "source.ts_ns",
        "source.sequence",
    }


RULES: Final[dict[str, Rule]] = {
    "key-only before": _filled,
    "unchanged TOAST behind a key change": _read_again,
    "messages outside of transactions": _outside,
}


def why(
    difference: Difference,
    known: dict[tuple[str, str], str],
    omitted: Collection[str] = (),
) -> str | None:
    """The deliberate difference that this one is, or None. ``known`` are values by topic and our
    JSON; in the topics of ``omitted`` Debezium leaves column v out, NULLs with it."""
    if _of_row(difference):
        if difference.theirs == MISSING and difference.topic in omitted:
            return f"values: {OMITTED}"
        ours = json.dumps(difference.ours, ensure_ascii=False, separators=(",", ":"))
        if found := known.get((difference.topic, ours)):
            return found
    return next((name for name, rule in RULES.items() if rule(difference)), None)


def comparable(theirs: list[Emitted], ours: list[Emitted]) -> tuple[list[Emitted], list[Emitted]]:
    """Without the records that only one of them has on purpose: tombstones that follow a delete
    of a row without a key, and our own heartbeats, which others see as messages."""
    kept = [
        event
        for event in theirs
        if not (event.key is None and event.value is None) and event.key != {"prefix": HEARTBEAT}
    ]
    return kept, ours


def differences(topic: str, theirs: list[Emitted], ours: list[Emitted]) -> Iterator[Difference]:
    """Event by event, in order."""
    for index, (their, our) in enumerate(zip_longest(theirs, ours)):
        if their is None or our is None:
            yield Difference(topic, index, "event", "", _short(their), _short(our))
            return
        change = _change(our)
        left, right = dict(_fields(their)), dict(_fields(our))
        for field in {**left, **right}:
            their_value, our_value = left.get(field, MISSING), right.get(field, MISSING)
            if not _same(their_value, our_value):
                yield Difference(topic, index, field, change, their_value, our_value)


def _same(theirs: Any, ours: Any) -> bool:
    """JSON has one kind of number: Debezium writes 1.0 where PostgreSQL's text is 1."""
    return isinstance(theirs, bool) is isinstance(ours, bool) and bool(theirs == ours)


def _change(event: Emitted) -> str:
    if event.value is None:
        return "tombstone"
    if event.value["op"] == "m" and event.value["source"]["txId"] is None:
        return "m-outside"
    return str(event.value["op"])


def _fields(event: Emitted) -> Iterator[tuple[str, Any]]:
    """Every field by its path; rows and the source field by field, with their order."""
    yield "key", json.dumps(event.key)
    yield "headers", {k: v for k, v in event.headers.items() if "context" not in k}
    if event.value is None:
        yield "value", None
        return
    yield "order of fields", list(event.value)
    for name, value in event.value.items():
        if name in CLOCKS:
            continue
        if name in ("before", "after") and isinstance(value, dict):
            yield f"{name} of a row", True
            yield from ((f"{name}.{column}", cell) for column, cell in value.items())
        elif name == "source":
            fields = {k: v for k, v in value.items() if k not in (*OURS, "version", "name")}
            yield "order of source", list(fields)
            yield from ((f"source.{k}", v) for k, v in fields.items())
        else:
            yield name, value


def _short(event: Emitted | None) -> str:
    return "none" if event is None else json.dumps([event.key, event.value])[:300]
