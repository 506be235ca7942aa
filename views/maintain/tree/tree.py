"""A view's SQL as a tree of query blocks, all names resolved. Pure values.

Every source of every FROM has an alias that is unique in the whole statement, and every column in
an expression is qualified by it. A CTE is a derived table at each place that names it. A subquery
inside of an expression stands there as ``SELECT __sub_N``; ``Statement.subqueries`` has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from views.maintain.mirror import MirrorTable

SUBQUERY = "__sub_"


@dataclass(slots=True)
class Source:
    """Something that a FROM reads.

    Exactly one of ``table``, ``query`` and ``call`` is set; none for what a recursive query reads
    of itself. ``call`` is a function or VALUES, written with its alias. ``needs`` are the sources
    of the same FROM that a lateral one reads. ``ordinality`` names the column of WITH ORDINALITY.
    """

    alias: str
    columns: tuple[str, ...]
    node: exp.Expr
    table: MirrorTable | None = None
    query: Query | None = None
    call: exp.Expr | None = None
    recursion: str = ""
    ordinality: str = ""
    lateral: bool = False
    needs: frozenset[str] = frozenset()


@dataclass(slots=True)
class Leaf:
    """A source in the tree of joins."""

    alias: str


@dataclass(slots=True)
class Joined:
    """A join. ``kind`` is inner, left or full; RIGHT is LEFT with its sides changed over."""

    kind: str
    left: Tree
    right: Tree
    on: list[exp.Expr]
    usings: tuple[str, ...] = ()


Tree = Leaf | Joined


def aliases(tree: Tree | None) -> tuple[str, ...]:
    """The sources of a tree of joins, in their order."""
    if tree is None:
        return ()
    if isinstance(tree, Leaf):
        return (tree.alias,)
    return aliases(tree.left) + aliases(tree.right)


def joins(tree: Tree | None) -> Iterator[Joined]:
    """All joins, outer ones first."""
    if isinstance(tree, Joined):
        yield tree
        yield from joins(tree.left)
        yield from joins(tree.right)


@dataclass(slots=True)
class Output:
    """A column of a query."""

    name: str
    node: exp.Expr


@dataclass(slots=True)
class Block:
    """One SELECT. ``group`` is None without GROUP BY and aggregates, ``sets`` its verbatim form
    where it has grouping sets. ``limit`` are LIMIT, OFFSET and FETCH as written."""

    sources: dict[str, Source]
    tree: Tree | None
    where: list[exp.Expr]
    outputs: list[Output]
    group: list[exp.Expr] | None = None
    sets: exp.Expr | None = None
    having: list[exp.Expr] = field(default_factory=list)
    windows: list[exp.Window] = field(default_factory=list)
    distinct: bool = False
    distinct_on: list[exp.Expr] = field(default_factory=list)
    order: list[exp.Expr] = field(default_factory=list)
    limit: list[exp.Expr] = field(default_factory=list)
    node: exp.Expr = field(default_factory=exp.Select)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs)

    def output(self, name: str) -> exp.Expr:
        """The expression of a column."""
        return next(output.node for output in self.outputs if output.name == name)

    @property
    def plain(self) -> bool:
        """Whether its rows are those of its FROM, one for one."""
        staged = self.group is not None or self.windows or self.distinct or self.distinct_on
        return not (staged or self.limit)


@dataclass(slots=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two queries."""

    kind: str
    all: bool
    left: Query
    right: Query
    order: list[exp.Expr]
    limit: list[exp.Expr]
    node: exp.Expr

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns


@dataclass(slots=True)
class Recursion:
    """WITH RECURSIVE: what ``anchor`` gives, and ``step`` of what there is already."""

    name: str
    columns: tuple[str, ...]
    all: bool
    anchor: Query
    step: Query
    node: exp.Expr


Query = Block | SetOperation | Recursion


@dataclass(slots=True)
class Statement:
    """The whole view."""

    view: str
    query: Query
    subqueries: dict[str, Query]

    def inside(self, node: exp.Expr) -> Iterator[tuple[exp.Select, Query]]:
        """The subqueries of an expression: where they stand, and what they are."""
        for select in node.find_all(exp.Select):
            name = subquery_name(select)
            if name in self.subqueries:
                yield select, self.subqueries[name]


def replaced_source(block: Block, alias: str, query: Query) -> Block:
    """A block in which a source is another query, with the same columns."""
    source = replace(block.sources[alias], query=query, recursion="")
    return replace(block, sources={**block.sources, alias: source})


def subquery_name(select: exp.Select) -> str:
    """``__sub_N`` of a subquery's place, or nothing."""
    only = select.expressions[0] if len(select.expressions) == 1 else None
    return only.name if isinstance(only, exp.Var) and only.name.startswith(SUBQUERY) else ""


def reads(node: exp.Expr | None) -> frozenset[str]:
    """The sources whose columns an expression names itself, not in its subqueries."""
    if node is None:
        return frozenset()
    return frozenset(column.table for column in node.find_all(exp.Column) if column.table)


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND joins."""
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return conjuncts(node.left) + conjuncts(node.right)
    return [node]
