"""From changed rows to the expressions that they touch: the joins that are needed for it. Pure.

A FROM is cut down to the sources that lead from one source to those that an expression reads. What
only limits may be left out: then more is found than is touched, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from views.maintain.touched.pushdown_columns import has_subquery
from views.maintain.tree.correlated_sources import all_reads, free
from views.maintain.tree.from_clause import outer_sides
from views.maintain.tree.tree import Joined, Leaf, Query, Source, Tree, aliases, joins, reads


class NoWayError(Exception):
    """The touched rows cannot be found from the changed ones; the argument says why."""


@dataclass(slots=True)
class Level:
    """A FROM on the way, with the conditions that hold in all of its rows."""

    tree: Tree | None
    sources: Mapping[str, Source]
    where: list[exp.Expr]


@dataclass(slots=True)
class Route:
    """A FROM that is cut down, and its conditions."""

    trees: list[Tree]
    sources: dict[str, Source]
    where: list[exp.Expr]

    @property
    def aliases(self) -> list[str]:
        return [alias for tree in self.trees for alias in aliases(tree)]


def missing_at(tree: Tree | None, alias: str) -> Joined | None:
    """The outermost join because of which a row may lack a source."""
    while isinstance(tree, Joined):
        right = alias in aliases(tree.right)
        if tree.kind == "full" or (tree.kind == "left" and right):
            return tree
        tree = tree.right if right else tree.left
    return None


def matched(tree: Tree, alias: str) -> Tree:
    """The tree with joins made inner that a source may be missing because of."""
    if isinstance(tree, Leaf):
        return tree
    if alias in aliases(tree.right):
        kind = "inner" if tree.kind == "left" else tree.kind
        return Joined(kind, tree.left, matched(tree.right, alias), tree.on, tree.usings)
    if alias in aliases(tree.left):
        return Joined(tree.kind, matched(tree.left, alias), tree.right, tree.on, tree.usings)
    return tree


@dataclass(slots=True)
class Search:
    """Looks for the sources to keep. ``usable`` says which columns of ``start`` are there."""

    levels: Sequence[Level]
    start: str
    usable: frozenset[str] | None
    subqueries: Mapping[str, Query]
    sources: dict[str, Source] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for level in self.levels:
            self.sources.update(level.sources)
            self.outer |= outer_sides(level.tree)

    def route(self, wanted: Iterable[exp.Expr]) -> Route:
        """The way to what is wanted. Raises ``NoWayError`` if nothing connects it."""
        needed = {alias for node in wanted for alias in reads(node)} & set(self.sources)
        keep = self._closed({self.start} | needed)
        keep = self._closed(keep | self._between(keep))
        return self._cut(keep)

    def conditions(self) -> list[exp.Expr]:
        """What holds in all rows, as far as it can be asked here."""
        found: list[exp.Expr] = []
        for level in self.levels:
            found += level.where
            found += certain(level.tree)
        return [node for node in found if self._askable(node)]

    def _askable(self, node: exp.Expr) -> bool:
        if has_subquery(node) or not reads(node) <= set(self.sources):
            return False
        return not (reads(node) & self.outer) and self._there(node)

    def _there(self, node: exp.Expr) -> bool:
        """Whether the columns of ``start`` that a condition reads are those that are there."""
        if self.usable is None:
            return True
        return all(
            column.name in self.usable
            for column in node.find_all(exp.Column)
            if column.table == self.start
        )

    def _edges(self) -> list[frozenset[str]]:
        found = [reads(node) for node in self.conditions()]
        for level in self.levels:
            for join in joins(level.tree):
                found += [reads(node) for node in join.on if self._there(node)]
            for source in level.sources.values():
                if needs := self._needs(source):
                    found.append(frozenset({source.alias, *needs}))
        return [edge & set(self.sources) for edge in found]

    def _between(self, keep: set[str]) -> set[str]:
        """The sources on the shortest ways from ``start`` to all that is kept."""
        edges = self._edges()
        before: dict[str, str] = {self.start: ""}
        queue = [self.start]
        for here in queue:
            for edge in edges:
                if here in edge:
                    for other in sorted(edge - set(before)):
                        before[other] = here
                        queue.append(other)
        found: set[str] = set()
        for alias in keep:
            if alias not in before:
                self._check_apart(alias)
                continue
            at = alias
            while at:
                found.add(at)
                at = before[at]
        return found

    def _check_apart(self, alias: str) -> None:
        """A source that nothing connects: what each changed row meets all rows of."""
        source = self.sources[alias]
        start = self.sources[self.start]
        if source.call is not None or (source.query is not None and start.table is not None):
            return
        reason = f"each row of {called(start)} meets every row of {called(source)}"
        raise NoWayError(reason)

    def _closed(self, keep: set[str]) -> set[str]:
        """With what the kept sources need to be what they are."""
        while True:
            before = len(keep)
            for alias in list(keep):
                keep |= self._needs(self.sources[alias])
            for level in self.levels:
                for join in joins(level.tree):
                    keep |= self._of_join(join, keep)
            if len(keep) == before:
                return keep

    def _needs(self, source: Source) -> frozenset[str]:
        found = source.needs
        if source.alias == self.start:
            return frozenset()
        if source.call is not None:
            found |= all_reads(source.call, self.subqueries)
        if source.query is not None:
            found |= free(source.query, self.subqueries)
        return found & set(self.sources)

    def _of_join(self, join: Joined, keep: set[str]) -> set[str]:
        left, right = set(aliases(join.left)), set(aliases(join.right))
        if join.kind == "full" and keep & (left | right):
            return left | right
        if join.kind == "left" and keep & right:
            found = {alias for node in join.on for alias in all_reads(node, self.subqueries)}
            found &= left | right
            # Who is not there leaves out the whole side: it shows NULL then.
            return (found or left) | (right - outer_sides(join.right))
        return set()

    def _cut(self, keep: set[str]) -> Route:
        where = [node for node in self.conditions() if reads(node) and reads(node) <= keep]
        for level in self.levels:
            if any(_asks(join.right) for join in joins(level.tree) if _is_kept(join, keep)):
                raise NoWayError("a subquery says which rows of an outer join there are")
        trees = [tree for level in self.levels if (tree := pruned(level.tree, keep)) is not None]
        for tree in trees:
            for join in joins(tree):
                if any(not reads(node) <= set(aliases(tree)) for node in join.on):
                    raise NoWayError(
                        "an outer join inside of a subquery reads what is outside of it"
                    )
        known = {id(node) for tree in trees for join in joins(tree) for node in join.on}
        where = [node for node in where if id(node) not in known]
        return Route(trees, {alias: self.sources[alias] for alias in keep}, where)


def _is_kept(join: Joined, keep: set[str]) -> bool:
    return join.kind == "left" and bool(keep & set(aliases(join.right)))


def _asks(tree: Tree) -> bool:
    """Whether a subquery decides over rows of inner joins."""
    inner = (join for join in joins(tree) if join.kind == "inner")
    return any(has_subquery(node) for join in inner for node in join.on)


def called(source: Source) -> str:
    """A source as messages name it."""
    if source.table is None:
        return source.alias
    name = source.table.table.removeprefix("public.")
    return name if name == source.alias else f"{name} {source.alias}"


def certain(tree: Tree | None) -> list[exp.Expr]:
    """The conditions of inner joins that no outer join may undo."""
    if not isinstance(tree, Joined) or tree.kind == "full":
        return []
    if tree.kind == "left":
        return certain(tree.left)
    return list(tree.on) + certain(tree.left) + certain(tree.right)


def pruned(tree: Tree | None, keep: set[str]) -> Tree | None:
    if tree is None:
        return None
    if isinstance(tree, Leaf):
        return tree if tree.alias in keep else None
    left, right = pruned(tree.left, keep), pruned(tree.right, keep)
    if left is None or right is None:
        return left or right
    on = tree.on
    if tree.kind == "inner":
        there = set(aliases(left) + aliases(right))
        on = [node for node in on if not has_subquery(node) and reads(node) <= there]
    return Joined(tree.kind, left, right, on, tree.usings)
