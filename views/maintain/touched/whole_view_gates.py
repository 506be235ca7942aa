"""What decides over the whole view: a subquery or derived table that is tied to no row of it. Pure.

While it gives the same in two states, a change of what it reads touches nothing by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from views.maintain.touched.occurrences import Occurrence
from views.maintain.tree.correlated_sources import free, own_expressions
from views.maintain.tree.render import Writer, quoted
from views.maintain.tree.tree import Block, Query, Recursion, SetOperation, Statement, subquery_name

_BY_ORDER = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def gate_of(
    statement: Statement, read: Mapping[str, Sequence[str]], occurrence: Occurrence
) -> str | None:
    """The relation that tells whether a change in an occurrence matters; None without one."""
    query: Query = statement.query
    for step in occurrence.steps:
        if step.kind == "side":
            assert isinstance(query, SetOperation)
            query = query.left if step.name == "left" else query.right
        elif step.kind == "part":
            assert isinstance(query, Recursion)
            query = query.anchor if step.name == "anchor" else query.step
        elif step.kind == "subquery":
            assert isinstance(query, Block)
            inner = statement.subqueries[step.name]
            if not free(inner, statement.subqueries) and not _recursive(inner):
                return _of_subquery(Writer(statement, read), query, step.name, inner)
            query = inner
        else:
            assert isinstance(query, Block)
            source = query.sources[step.name]
            if source.query is None:
                return None
            inner = source.query
            tied = free(inner, statement.subqueries) or _recursive(inner)
            if not tied and isinstance(inner, Block) and not inner.plain:
                return _of_columns(Writer(statement, read), query, step.name, inner)
            query = inner
    return None


def _recursive(query: Query) -> bool:
    """Whether it reads a recursive query from the inside, and so means nothing by itself."""
    return isinstance(query, Block) and any(item.recursion for item in query.sources.values())


def _of_subquery(writer: Writer, block: Block, name: str, query: Query) -> str:
    """What a subquery shows to the rows that ask it."""
    sql = writer.query(query)
    place = _place(block, name)
    if isinstance(place, exp.Exists):
        return f"SELECT EXISTS ({sql}) AS found"
    if isinstance(place, exp.All | exp.Any) and isinstance(place.parent, _BY_ORDER):
        first = quoted(query.columns[0])
        inner = f"(SELECT {first} AS x FROM ({sql}) AS q) AS q WHERE x IS"
        return (
            f"SELECT (SELECT x FROM {inner} NOT NULL ORDER BY x LIMIT 1) AS lowest, "
            f"(SELECT x FROM {inner} NOT NULL ORDER BY x DESC LIMIT 1) AS highest, "
            f"EXISTS (SELECT FROM {inner} NULL) AS none"
        )
    return sql


def _place(block: Block, name: str) -> exp.Expr | None:
    """The node that a subquery stands in."""
    for node in own_expressions(block):
        for select in node.find_all(exp.Select):
            if subquery_name(select) == name:
                parent = select.parent
                while isinstance(parent, exp.Subquery | exp.Paren):
                    parent = parent.parent
                return parent
    return None


def _of_columns(writer: Writer, block: Block, alias: str, query: Block) -> str:
    """The columns of a derived table that the block reads."""
    source = block.sources[alias]
    names = {
        part.name
        for node in own_expressions(block)
        for part in node.find_all(exp.Column)
        if part.table == alias
    }
    whole = not names <= set(source.columns)
    shown = [quoted(name) for name in source.columns if whole or name in names]
    columns = ", ".join(quoted(name) for name in source.columns)
    return f"SELECT {', '.join(shown)} FROM ({writer.query(query)}) AS q({columns})"


def nothing_compared(statement: Statement, read: Mapping[str, Sequence[str]], name: str) -> str:
    """For NOT IN: whether a subquery has rows, and NULL among them, on which all rows depend."""
    query = statement.subqueries[name]
    sql = Writer(statement, read).query(query)
    columns = ", ".join(f"c{number}" for number in range(len(query.columns)))
    none = " OR ".join(f"c{number} IS NULL" for number in range(len(query.columns)))
    return (
        f"SELECT count(*) > 0 AS there, coalesce(bool_or({none}), false) AS none "
        f"FROM ({sql}) AS q({columns})"
    )
