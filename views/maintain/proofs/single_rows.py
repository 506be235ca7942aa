"""Whether each row of a view is made of one row of one table, and of which key it is then. Pure.

A history is given the table's rows one by one, as changes leave them. So its SQL has to give the
same for each alone as for all of them: no stage of it may take rows of several keys together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from views.maintain.touched.occurrences import Occurrence, occurrences
from views.maintain.touched.pushdown_columns import stages
from views.maintain.tree.from_clause import outer_sides
from views.maintain.tree.origin import of_node, source_of
from views.maintain.tree.tree import Block, Query, Source, Statement


@dataclass(frozen=True, slots=True)
class SingleRows:
    """``reason`` says what takes several rows together, "" for nothing. ``key``: for each column of
    the view's key the table's column that it shows, "" for none; as its text, if it is one of
    ``texts``."""

    key: tuple[str, ...] = ()
    reason: str = ""
    texts: frozenset[str] = frozenset()


def single_rows(statement: Statement, positions: Sequence[int]) -> SingleRows:
    """Of a view whose key stands at these positions."""
    found = occurrences(statement)
    if len(found) != 1:
        several = len({one.table.table for one in found}) > 1
        return SingleRows(reason="it reads several tables" if several else "it reads its table "
                          f"{len(found)} times")  # fmt: skip
    if reason := _together(statement.query, found[0]):
        return SingleRows(reason=reason)
    block = statement.query
    assert isinstance(block, Block), "else its rows are taken together"
    key, texts = [], set[str]()
    for position in positions:
        node = block.outputs[position].node
        inner = node.this if _is_text(block, node) else node
        key.append(_shown(block, inner, found[0].source))
        if inner is not node:
            texts.add(key[-1])
    return SingleRows(tuple(key), texts=frozenset(texts))


def _together(query: Query, occurrence: Occurrence) -> str:
    """What takes rows of several keys together on the way to the table, from the top."""
    key = set(occurrence.table.key)
    for step in occurrence.steps:
        if not isinstance(query, Block):
            return "a set operation or a recursive query"
        if step.kind != "source":
            return "a subquery reads the table"
        if query.limit:
            return "LIMIT or OFFSET"
        if query.sets is not None:
            return "GROUPING SETS"
        for stage in stages(query):
            if not key <= {_shown(query, node, occurrence.source) for node in stage}:
                return _stage(query)
        if query.distinct:
            shown = {_shown(query, out.node, occurrence.source) for out in query.outputs}
            if not key <= shown:
                return "DISTINCT without the table's key"
        if step.name in outer_sides(query.tree):
            return "an outer join gives rows without one of the table"
        source = query.sources[step.name]
        if source.query is None:
            return ""
        query = source.query
    return ""


def _stage(block: Block) -> str:
    if block.group is not None:
        return "GROUP BY without the table's key" if block.group else "an aggregate"
    return "a window over several rows" if block.windows else "DISTINCT ON without the table's key"


def _is_text(block: Block, node: exp.Expr) -> bool:
    """Whether an expression is the text of a column that no other value has."""
    if not isinstance(node, exp.Cast) or node.to.sql("postgres").lower() != "text":
        return False
    column = of_node(block.sources, node.this)
    return column is not None and column.told_by_text


def _shown(block: Block, node: exp.Expr, table: Source) -> str:
    """The table's column that an expression is, or nothing."""
    return next((name for source, name in source_of(block.sources, node) if source is table), "")
