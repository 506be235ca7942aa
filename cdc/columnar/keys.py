"""Keys, a column at once: whether they have their values exactly (``cdc.events.keys.exactness``),
and what chooses partitions in their place. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdc.columnar.arrays import data_of, holds_only, sizes_of, texts_of
from cdc.columnar.json_objects import joined, json_object
from cdc.columnar.tuples import Column
from cdc.columnar.values import column_of_table
from cdc.events.envelope import SourceContext, text
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


class PartitionKeys:
    """Of one table version whose route names columns that choose the partition: as
    ``cdc.events.rows.RowEncoder.partition_key`` of each row."""

    __slots__ = ("_columns", "_encode", "_names")

    def __init__(self, relation: Relation, context: SourceContext) -> None:
        place = context.form.place(context.name, relation.schema, relation.table)
        names = [column.name for column in relation.columns]
        self._columns = [names.index(name) for name in place.partition_by]
        self._names = [text(name) for name in place.partition_by]
        columns = [relation.columns[at] for at in self._columns]
        self._encode = [column_of_table(column, context.form) for column in columns]

    def __bool__(self) -> bool:
        """Whether the route names any."""
        return bool(self._columns)

    def of(self, columns: Sequence[Column], rows: int) -> Any:
        """An Arrow array of binary. Raises ``ProtocolError`` for a value that does not have
        PostgreSQL's text form."""
        pairs = zip(self._encode, self._columns, strict=True)
        cells = [encode(columns[at]) for encode, at in pairs]
        return joined(json_object(self._names, cells), rows)


def _hold(guard: Guard, values: Any) -> bool:
    if not len(values):
        return True
    short = guard.longest is None or sizes_of(values).max() <= guard.longest
    if short and guard.plain and holds_only(data_of(values), guard.plain):
        return True
    return all(map(guard.holds, texts_of(values)))
