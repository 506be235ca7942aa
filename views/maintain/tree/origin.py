"""Which column of a table a column of a query shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from views.maintain.mirror import MirrorColumn
from views.maintain.tree.tree import Query, Recursion, SetOperation, Source


def of_query(query: Query, position: int) -> MirrorColumn | None:
    """The column of a table that a column of a query shows unchanged."""
    if isinstance(query, SetOperation):
        left, right = of_query(query.left, position), of_query(query.right, position)
        if left is None or right is None or left.equal_image:
            return right if left is None or right is not None else left
        return left
    if isinstance(query, Recursion):
        return of_query(query.anchor, position)
    return of_node(query.sources, query.outputs[position].node)


def of_node(sources: Mapping[str, Source], node: exp.Expr) -> MirrorColumn | None:
    """The same for a column that an expression is."""
    if not isinstance(node, exp.Column) or node.table not in sources:
        return None
    source = sources[node.table]
    if source.table is not None:
        return source.table.column(node.name)
    if source.query is not None:
        return of_query(source.query, source.columns.index(node.name))
    return None


def columns_of(sources: Mapping[str, Source], node: exp.Column) -> Iterator[MirrorColumn]:
    """The columns of tables that a column shows unchanged; all of a source, where it is its row."""
    names = [node.name]
    if isinstance(node.this, exp.Star):
        names = list(sources[node.table].columns) if node.table in sources else []
    for name in names:
        found = of_node(sources, exp.column(name, node.table))
        if found is not None:
            yield found


def source_of(sources: Mapping[str, Source], node: exp.Expr) -> Iterator[tuple[Source, str]]:
    """The tables' columns that a column shows unchanged, those of all sides of a UNION."""
    if not isinstance(node, exp.Column) or node.table not in sources:
        return
    source = sources[node.table]
    if source.table is not None:
        yield source, node.name
    elif source.query is not None and node.name in source.columns:
        yield from _of_position(source.query, source.columns.index(node.name))


def _of_position(query: Query, position: int) -> Iterator[tuple[Source, str]]:
    if isinstance(query, SetOperation):
        yield from _of_position(query.left, position)
        yield from _of_position(query.right, position)
    elif isinstance(query, Recursion):
        yield from _of_position(query.anchor, position)
    else:
        yield from source_of(query.sources, query.outputs[position].node)


def same_type(sources: Mapping[str, Source], one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two columns are of one type, in which equal values are one and the same."""
    left, right = of_node(sources, one), of_node(sources, other)
    if left is None or right is None:
        return False
    return left.type == right.type and left.equal_image and right.equal_image
