"""Indexes by which a change of a few rows reads a few rows: what joins, subqueries, groups and
partitions look up. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from views.function_names import words
from views.maintain.touched.links import compared_with
from views.maintain.touched.pushdown_columns import stages
from views.maintain.tree import functions
from views.maintain.tree.correlated_sources import blocks
from views.maintain.tree.origin import source_of
from views.maintain.tree.parser import text
from views.maintain.tree.tree import Block, Source, Statement, joins

_PLAIN = words("coalesce lower upper abs")
_SETTLED_TEXTS = ("smallint", "integer", "bigint", "uuid", "numeric")
"""Types whose text depends on no setting, so that PostgreSQL takes an index of it."""
_RANGES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


@dataclass(frozen=True, slots=True)
class Index:
    """An index that makes key queries and recomputation cheap: the columns, in their order, or
    else an expression over the table's columns, as SQL."""

    table: str
    columns: tuple[str, ...]
    expression: str = ""


def indexes(
    statement: Statement, outputs: Sequence[exp.Expr], more: Sequence[Index] = ()
) -> tuple[Index, ...]:
    """The indexes of a view beside its tables' keys. ``outputs`` are what its key shows, ``more``
    are needed besides."""
    everything = {
        alias: source
        for block in blocks(statement.query, statement.subqueries)
        for alias, source in block.sources.items()
    }
    found: dict[Index, None] = dict.fromkeys(more)
    for block in blocks(statement.query, statement.subqueries):
        for wanted in _looked_up(statement, block):
            for index in _of_columns(everything, wanted):
                found[index] = None
        for node in (part for stage in stages(block) for part in stage):
            found |= dict.fromkeys(_of_expression(block.sources, node))
    for index in _of_columns(everything, [node for node in outputs if _is_column(node)]):
        found[index] = None
    found |= dict.fromkeys(index for node in outputs for index in _of_text(everything, node))
    kept = [index for index in found if not _covered(index, found)]
    return tuple(kept)


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def _looked_up(statement: Statement, block: Block) -> Iterator[list[exp.Expr]]:
    """Lists of columns that are compared at once."""
    conditions = [*block.where, *(node for join in joins(block.tree) for node in join.on)]
    conditions += compared_with(statement, block)
    equal: dict[tuple[str, str], list[exp.Expr]] = {}
    for node in conditions:
        if isinstance(node, exp.EQ | exp.NullSafeEQ):
            sides = (node.this, node.expression)
            for one, other in (sides, sides[::-1]):
                tables = {part.table for part in other.find_all(exp.Column)}
                if _is_column(one) and tables and one.table not in tables:
                    equal.setdefault((one.table, min(tables)), []).append(one)
        elif isinstance(node, _RANGES):
            parts = [part for part in node.find_all(exp.Column) if _is_column(part)]
            if len({part.table for part in parts}) > 1:
                for part in parts:
                    yield [part]
    yield from equal.values()
    yield from ([part for part in stage if _is_column(part)] for stage in stages(block))


def _of_columns(everything: Mapping[str, Source], wanted: Sequence[exp.Expr]) -> Iterator[Index]:
    """The columns as those of tables, one index for each table."""
    tables: dict[str, list[str]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for node in wanted:
        for source, name in source_of(everything, node):
            assert source.table is not None
            tables.setdefault(source.table.table, []).append(name)
            keys[source.table.table] = source.table.key
    for table, names in tables.items():
        columns = tuple(dict.fromkeys(names))
        key = keys[table]  # has an index, by which a row is found whatever else is compared
        if columns != key[: len(columns)] and not set(key) <= set(columns):
            yield Index(table, columns)


def _of_expression(sources: Mapping[str, Source], node: exp.Expr) -> Iterator[Index]:
    """An expression that is grouped by, if PostgreSQL surely takes an index of it."""
    found = {part.table for part in node.find_all(exp.Column)}
    source = sources.get(next(iter(found), ""))
    if len(found) != 1 or source is None or source.table is None or _is_column(node):
        return
    for part in node.walk():
        simple = isinstance(part, exp.Column | exp.Identifier | exp.Literal | exp.JSONExtractScalar)
        if not simple and functions.name(part) not in _PLAIN:
            return
    bare = node.copy()
    for part in bare.find_all(exp.Column):
        part.set("table", None)
    yield Index(source.table.table, (), text(bare))


def _of_text(everything: Mapping[str, Source], node: exp.Expr) -> Iterator[Index]:
    """``id::text``, by which rows are looked up if it is of the view's key."""
    if not isinstance(node, exp.Cast) or node.to.sql("postgres").lower() != "text":
        return
    for source, name in source_of(everything, node.this):
        assert source.table is not None
        column = source.table.column(name)
        if column is not None and re.sub(r"\([\d,-]+\)$", "", column.type) in _SETTLED_TEXTS:
            bare = exp.Cast(this=exp.column(name, quoted=True), to=node.to.copy())
            yield Index(source.table.table, (), text(bare))


def _covered(index: Index, others: Mapping[Index, None]) -> bool:
    """Whether a longer index begins with the same columns."""
    size = len(index.columns)
    return any(
        other.table == index.table
        and not index.expression
        and len(other.columns) > size
        and other.columns[:size] == index.columns
        for other in others
    )
