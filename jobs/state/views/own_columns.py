"""Columns of ours beside the key's in a view's tables, whatever the key's are called. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class OwnColumns(NamedTuple):
    """``seq`` and ``first_seq`` of dirty keys, ``digest`` of what a store was given; ``held`` of a
    statement's own."""

    seq: str
    first_seq: str
    digest: str
    held: str


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def own_columns(key: Iterable[_Named]) -> OwnColumns:
    """What they are called beside these: a name of theirs gets underscores."""
    taken = {column.name for column in key}

    def free(name: str) -> str:
        while name in taken:
            name += "_"
        return name

    return OwnColumns._make(map(free, OwnColumns._fields))
