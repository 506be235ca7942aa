"""What settles what: the closure over keys and equalities that proves a view's key. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from views.spark.clauses import Clause
from views.spark.expressions.terms import ColumnRef
from views.spark.keys.joins import Join, equalities, holding, present
from views.table_versions import TableVersion


def settled_by(
    start: Iterable[ColumnRef],
    joins: Sequence[Join],
    where: Sequence[Clause],
    tables: Mapping[str, TableVersion],
    certain: Iterable[str] = (),
) -> frozenset[ColumnRef]:
    """The columns that have one value in all rows of the join where those of ``start`` have.

    Only those count where the occurrences of ``certain`` are not missing.
    A key settles its row; an equality that holds settles one side by the other; a row that a LEFT
    JOIN looks up by its key is settled, or missing, by what ON compares it with.
    """
    there = present(joins, where, certain)
    always = list(equalities([*holding(joins, there), *where], tables))
    found = set(start)
    while True:
        before = len(found)
        for equal in always:
            if equal.source <= found:
                found.add(equal.column)
        for alias, table in tables.items():
            if table.key and {ColumnRef(alias, column) for column in table.key} <= found:
                found |= {ColumnRef(alias, column.name) for column in table.columns}
        for join in joins:
            if join.left and join.alias not in there and _looked_up(join, tables, found):
                table = tables[join.alias]
                found |= {ColumnRef(join.alias, column.name) for column in table.columns}
        if len(found) == before:
            return frozenset(found)


def _looked_up(join: Join, tables: Mapping[str, TableVersion], found: set[ColumnRef]) -> bool:
    """Whether ON finds at most one row, by values that are settled."""
    others = {c for part in join.on for c in part.reads if c.alias != join.alias}
    if not others <= found:
        return False
    by = {
        equal.column
        for equal in equalities(join.on, tables)
        if equal.column.alias == join.alias and equal.source <= found
    }
    key = {ColumnRef(join.alias, column) for column in tables[join.alias].key}
    return bool(key) and key <= by


def untold(settled: frozenset[ColumnRef], tables: Mapping[str, TableVersion]) -> list[ColumnRef]:
    """The key columns that are not settled: what rows of the join are still told apart by."""
    return [
        ColumnRef(alias, column)
        for alias, table in tables.items()
        for column in table.key
        if ColumnRef(alias, column) not in settled
    ]
