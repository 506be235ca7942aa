"""What the stream reads of an event: its position, its operation, its images. Pure.

The one place that knows the form of values in Kafka (``docs/events.md``); the stream hands on the
rest as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from cdc.errors import UsageError
from cdc.events.form import OURS, Form
from cdc.lsn import Position


def refuse_unread(form: Form) -> None:
    """Raise ``UsageError`` for a form of ``[events]`` that the stream does not read."""
    if replace(form, routes=()) != OURS:
        raise UsageError(
            "headwater serve reads events in the default form alone, and [events] says otherwise",
            "remove [events], or read the topics with Kafka's own clients",
        )


class ForeignRecordError(ValueError):
    """The value is no event of Headwater's."""


class Event(NamedTuple):
    """``before`` is None where the event has none, ``unchanged`` are columns that it left out;
    ``source`` is what the event says of itself."""

    position: Position
    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    unchanged: Sequence[str]
    source: Mapping[str, Any]


def event_of(value: bytes) -> Event:
    """Raises ``ForeignRecordError``."""
    try:
        document = orjson.loads(value)
        source = document["source"]
        position = Position(int(source["commit_lsn"]), int(source["ordinal"]))
        op, unchanged = str(document["op"]), source.get("unchanged") or ()
        return Event(position, op, document.get("before"), document.get("after"), unchanged, source)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ForeignRecordError("the value is no event that Headwater wrote") from None
