"""Changed rows that others are joined to, or ask for: outer joins, LATERAL, subqueries. Pure.

An unchanged row may gain or lose a partner. If only what it shows itself is wanted, the rows that
the changed ones match say it. If the partner is shown too, all that these rows show is enumerated,
in either state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from views.maintain.touched.links import linked, opened
from views.maintain.touched.occurrences import Step
from views.maintain.touched.paths import Level, NoWayError, matched, missing_at, pruned
from views.maintain.touched.pushdown_columns import has_subquery
from views.maintain.touched.search_plan import Find, Finder, Wanted
from views.maintain.tree.from_clause import column
from views.maintain.tree.origin import of_node
from views.maintain.tree.tree import Block, Joined, Tree, aliases, joins, reads

_NO_EQUALITY = ("json", "xml", "point", "line", "polygon", "path", "box", "circle", "lseg")
_UNKNOWN = "nothing in ON of the outer join says which rows belong to a change"
_THERE = "it depends on whether a row of an outer join is there"


def outer(
    finder: Finder, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find
) -> list[str]:
    """The changed rows are those that LEFT JOIN looks up."""
    source = block.sources[steps[0].name]
    join = missing_at(block.tree, source.alias)
    assert join is not None
    assert block.tree is not None
    inside = frozenset(aliases(join.right))
    kept = [node for node in block.where if not reads(node) & inside]
    level = Level(matched(block.tree, source.alias), block.sources, kept)
    if not _shown(wanted) & _following(block, inside, join):
        if find is Find.SOME:
            return [finder.joined([level], source, steps[1:], wanted, find)]
        return [finder.joined([level], source, steps[1:], wanted, Find.BOTH, inside)]
    if find is Find.BOTH:
        raise NoWayError(_THERE)
    prefix = _compared(block, join.on, set(block.sources) - inside)
    touched = finder.joined([level], source, steps[1:], prefix, Find.BOTH, inside)
    return [finder.enumerated(block, wanted, prefix, [touched])]


def _shown(wanted: Wanted) -> frozenset[str]:
    return frozenset(alias for _, node in wanted for alias in reads(node))


def _compared(block: Block, on: Sequence[exp.Expr], sources: Iterable[str]) -> Wanted:
    """The columns of some sources that conditions read, as a prefix to look rows up by."""
    if any(has_subquery(node) for node in on):
        raise NoWayError("a subquery in ON of an outer join")
    kept = set(sources)
    found = {
        (part.table, part.name)
        for node in on
        for part in node.find_all(exp.Column)
        if part.table in kept
    }
    if not found:
        raise NoWayError(_UNKNOWN)
    return _prefix(block, found)


def _following(
    block: Block, inside: frozenset[str], itself: Joined | None = None
) -> frozenset[str]:
    """The sources that may be there or not by what some sources show, these among them."""
    found = inside
    while True:
        before = len(found)
        for join in joins(block.tree):
            asked = any(reads(node) & found for node in join.on)
            if asked and join.kind != "inner" and join is not itself:
                found |= {*aliases(join.right)}
                found |= {*aliases(join.left)} if join.kind == "full" else set()
        found |= {alias for alias, item in block.sources.items() if item.needs & found}
        if len(found) == before:
            return found


def _prefix(block: Block, found: set[tuple[str, str]]) -> Wanted:
    """Columns to look rows up by. Of a type without = it is the key of their table instead."""
    kept: set[tuple[str, str]] = set()
    for alias, name in found:
        source, shown = block.sources[alias], of_node(block.sources, column(alias, name))
        if shown is None or shown.type not in _NO_EQUALITY:
            kept.add((alias, name))
        elif source.table is None:
            raise NoWayError(f"{alias}.{name} is {shown.type}, which cannot be compared")
        else:
            kept |= {(alias, key) for key in source.table.key}
    return [(f"h{number}", column(*key)) for number, key in enumerate(sorted(kept))]


def through_full(
    finder: Finder, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find
) -> list[str]:
    """The changed rows are on one side of FULL JOIN: rows of either side may be missing."""
    source = block.sources[steps[0].name]
    join = missing_at(block.tree, source.alias)
    assert join is not None
    left = source.alias in aliases(join.left)
    own, other = (join.left, join.right) if left else (join.right, join.left)
    alike = [(name, _own_side(node, join.on, own)) for name, node in wanted]
    merged = all(one is not node for (_, one), (_, node) in zip(alike, wanted, strict=True))
    if merged and _shown(alike) <= set(aliases(own)):  # else NULL is shown where a side is missing
        find = Find.BOTH if find is Find.ALL else find
        return finder.rows(_part(block, own), steps, alike, find)
    if find is Find.BOTH:
        raise NoWayError(_THERE)
    prefix = _compared(block, join.on, aliases(own))
    touched = finder.rows(_part(block, own), steps, prefix, Find.BOTH)
    found = [finder.enumerated(block, wanted, prefix, touched)]
    prefix = _compared(block, join.on, aliases(other))
    both = _part(block, Joined("inner", own, other, join.on))
    inside = frozenset(aliases(own))
    level = Level(matched(own, source.alias), both.sources, [])
    level = Level(Joined("inner", level.tree or own, other, join.on), both.sources, [])
    partners = finder.joined([level], source, steps[1:], prefix, Find.BOTH, inside)
    return [*found, finder.enumerated(block, wanted, prefix, [partners])]


def _part(block: Block, tree: Tree) -> Block:
    """A block that reads a part of another one's FROM."""
    return Block({alias: block.sources[alias] for alias in aliases(tree)}, tree, [], [])


def _own_side(node: exp.Expr, on: Sequence[exp.Expr], own: Tree) -> exp.Expr:
    """``coalesce(a.k, b.k)`` of a join on a.k = b.k, as one side knows it."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "coalesce":
        return node
    parts: list[exp.Expr] = list(node.expressions)
    here = set(aliases(own))
    for part in parts:
        others = [other for other in parts if other is not part]
        if reads(part) and reads(part) <= here and all(_equal(part, one, on) for one in others):
            return part
    return node


def _equal(one: exp.Expr, other: exp.Expr, on: Sequence[exp.Expr]) -> bool:
    return any(
        isinstance(node, exp.EQ) and ((node.this, node.expression) in ((one, other), (other, one)))
        for node in on
    )


def lateral(
    finder: Finder, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find
) -> list[str]:
    """The changed rows are read by a LATERAL subquery: what it is run for is touched."""
    source = block.sources[steps[0].name]
    assert block.tree is not None
    level = Level(matched(block.tree, source.alias), block.sources, block.where)
    if not _shown(wanted) & _following(block, frozenset({source.alias})):
        return through(finder, block, steps, [level], wanted, find)
    if find is Find.BOTH:
        raise NoWayError("it depends on what a LATERAL subquery gives")
    found = linked(finder.statement, block, steps, finder.gated)
    if not found:
        raise NoWayError("nothing says for which rows a LATERAL subquery reads a change")
    prefix = _prefix(block, found)
    touched = through(finder, block, steps, [level], prefix, Find.BOTH)
    return [finder.enumerated(block, wanted, prefix, touched)]


def through(
    finder: Finder,
    block: Block,
    steps: tuple[Step, ...],
    levels: Sequence[Level],
    wanted: Wanted,
    find: Find,
) -> list[str]:
    """Through a subquery: its rows are joined to those around it by its correlation."""
    inner, rest, more = opened(finder.statement, block, steps, finder.gated)
    if find is Find.ALL:
        find = Find.BOTH
    deeper = [*levels, *more]
    if steps[0].kind == "source":
        deeper[0] = _without(deeper[0], steps[0].name)
    source = inner.sources[rest[0].name]
    join = missing_at(inner.tree, source.alias)
    if join is not None:
        assert inner.tree is not None
        gone = set(aliases(join.right)) | (
            set(aliases(join.left)) if join.kind == "full" else set()
        )
        last = deeper[-1]
        kept = [node for node in last.where if not reads(node) & gone]
        deeper[-1] = Level(matched(inner.tree, source.alias), last.sources, kept)
    inside = frozenset(alias for level in more for alias in level.sources)
    return [finder.joined(deeper, source, rest[1:], wanted, find, inside)]


def _without(level: Level, alias: str) -> Level:
    keep = {name for name in level.sources if name != alias}
    sources = {name: item for name, item in level.sources.items() if name != alias}
    kept = [node for node in level.where if alias not in reads(node)]
    return Level(pruned(level.tree, keep), sources, kept)
