"""A dead letter as the command line has it, of capture or of a view, and which ones are meant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cdc.errors import UsageError
from headwater.cli.common.records import key_text

NO_FACTS: Final[Mapping[str, Any]] = MappingProxyType({})


class Entry(NamedTuple):
    """``view`` could not apply it; capture could not publish it, where that is empty.

    ``of`` is the topic of a record, or the name of the view whose row it is. ``since`` is when it
    was put aside, in UTC. ``facts`` are what else is known of it, as ``--json`` shows them.
    ``value`` is empty where only the list is wanted; ``values`` are a row's key in the state
    database, ``table`` is the table of a record that its mirror could not take.
    """

    id: str
    view: str
    of: str
    key: str | None
    cause: str
    since: datetime
    facts: Mapping[str, Any] = NO_FACTS
    value: bytes = b""
    values: tuple[str, ...] = ()
    table: str = ""

    @property
    def is_row(self) -> bool:
        """Whether it is of a row of the view, no record."""
        return self.of == self.view

    @property
    def name(self) -> str:
        """Its key with whose it is: of several tables one may have the same."""
        return self.id if self.key is None else f"{self.of}:{self.key}"

    @property
    def names(self) -> set[str]:
        """What ``--key`` may call it."""
        if self.key is None:
            return {self.id}
        short = {self.key, key_text(self.key.encode())}
        return {*short, *(f"{self.of}:{one}" for one in short)}


class Settled(NamedTuple):
    """What became of dead letters: how many ``events`` of how many ``keys`` wait no more, and what
    is ``left``: ``key`` and ``cause`` of each."""

    events: int = 0
    keys: int = 0
    left: Sequence[Mapping[str, str]] = ()


def by_key(found: Iterable[Entry]) -> list[list[Entry]]:
    """Those of a view's key together, in the order of the first; all others alone."""
    keys: dict[tuple[str, str], list[Entry]] = {}
    for one in found:
        keys.setdefault((one.view, one.name if one.view else one.id), []).append(one)
    return list(keys.values())


def chosen(view: str, found: Sequence[Entry], given: Sequence[str]) -> list[Entry]:
    """Those of the keys that are ``given``. Raises ``UsageError`` for a key that is not parked, or
    that is one of several tables."""
    whose = view if "." in view else f"view {view}"  # alerts.NAME
    if unknown := [key for key in given if not any(key in one.names for one in found)]:
        raise UsageError(
            f"{whose}: {', '.join(unknown)} is not parked",
            f"run `headwater dead-letters list {view}`",
        )
    taken: list[Entry] = []
    for key in given:
        meant = [one for one in found if key in one.names]
        if len({one.of for one in meant}) > 1:
            raise UsageError(
                f"{whose}: {key} is parked for several tables",
                f"write TOPIC:KEY, as {min(one.name for one in meant)}",
            )
        taken += [one for one in meant if one not in taken]
    return taken


def row_key(columns: Sequence[str], values: Sequence[str]) -> str:
    """A row's key as a JSON object, as a letter of the row has it."""
    return json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)
