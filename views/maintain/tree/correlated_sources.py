"""Which sources a query reads that are not its own: what it is correlated by. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from views.maintain.tree.tree import Block, Query, Recursion, Source, joins, subquery_name


def own_expressions(block: Block) -> Iterator[exp.Expr]:
    """All expressions of a block itself."""
    for join in joins(block.tree):
        yield from join.on
    yield from block.where
    yield from (output.node for output in block.outputs)
    yield from block.group or ()
    if block.sets is not None:
        yield block.sets
    yield from block.having
    yield from block.windows
    yield from block.distinct_on
    yield from block.order
    yield from block.limit
    for source in block.sources.values():
        if source.call is not None:
            yield source.call


def queries_in(node: exp.Expr, subqueries: Mapping[str, Query]) -> Iterator[Query]:
    """The subqueries of an expression."""
    for select in node.find_all(exp.Select):
        name = subquery_name(select)
        if name in subqueries:
            yield subqueries[name]


def queries(query: Query, subqueries: Mapping[str, Query]) -> Iterator[Query]:
    """A query and all that it is made of, those of subqueries too."""
    yield query
    if isinstance(query, Recursion):
        yield from queries(query.anchor, subqueries)
        yield from queries(query.step, subqueries)
    elif isinstance(query, Block):
        for source in query.sources.values():
            if source.query is not None:
                yield from queries(source.query, subqueries)
        for node in own_expressions(query):
            for inner in queries_in(node, subqueries):
                yield from queries(inner, subqueries)
    else:
        yield from queries(query.left, subqueries)
        yield from queries(query.right, subqueries)


def blocks(query: Query, subqueries: Mapping[str, Query]) -> Iterator[Block]:
    """All blocks of a query, those of subqueries too."""
    return (one for one in queries(query, subqueries) if isinstance(one, Block))


def sources(query: Query, subqueries: Mapping[str, Query]) -> Iterator[Source]:
    """All sources of a query, those of subqueries too."""
    for block in blocks(query, subqueries):
        yield from block.sources.values()


def columns(query: Query, subqueries: Mapping[str, Query]) -> Iterator[exp.Column]:
    """All columns that a query's expressions read."""
    for block in blocks(query, subqueries):
        for node in own_expressions(block):
            yield from (part for part in node.find_all(exp.Column) if part.table)


def free(query: Query, subqueries: Mapping[str, Query]) -> frozenset[str]:
    """The aliases that a query reads and does not have."""
    own = {source.alias for source in sources(query, subqueries)}
    return frozenset(column.table for column in columns(query, subqueries)) - own


def all_reads(node: exp.Expr, subqueries: Mapping[str, Query]) -> frozenset[str]:
    """The sources that an expression reads, its subqueries' correlations among them."""
    found = {part.table for part in node.find_all(exp.Column) if part.table}
    for query in queries_in(node, subqueries):
        found |= free(query, subqueries)
    return frozenset(found)
