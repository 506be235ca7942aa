"""Whether keys have their values exactly, a column at once: ``cdc.events.keys.exactness``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdc.columnar.arrays import data_of, holds_only, sizes_of, texts_of
from cdc.columnar.tuples import Column
from cdc.events.form import Form
from cdc.events.keys.exactness import Guard, key_guards
from cdc.protocol.relation import Relation


class KeyGuards:
    """Of one table version."""

    __slots__ = ("_guards",)

    def __init__(self, relation: Relation, form: Form) -> None:
        names = [column.name for column in relation.columns]
        guards = key_guards(relation, form)
        self._guards = [(names.index(name), guard) for name, guard in guards.items()]

    def hold(self, columns: Sequence[Column]) -> bool:
        """Whether every key is held; where not, row by row it is said which is not."""
        return all(_hold(guard, columns[at].values) for at, guard in self._guards)


def _hold(guard: Guard, values: Any) -> bool:
    if not len(values):
        return True
    short = guard.longest is None or sizes_of(values).max() <= guard.longest
    if short and guard.plain and holds_only(data_of(values), guard.plain):
        return True
    return all(map(guard.holds, texts_of(values)))
