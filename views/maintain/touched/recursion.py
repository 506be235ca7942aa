"""Recursive queries: which roots reach a changed row. Pure.

A column that the step passes on unchanged is the same in all rows that come of one row of the
anchor, its root. So the rows of a root change only if a step from one of them reads a changed row.
Where the step goes by equalities, the way is walked backwards, from the changed rows to the anchor.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from views.maintain.touched.occurrences import Step
from views.maintain.touched.paths import NoWayError, certain, missing_at, pruned
from views.maintain.touched.pushdown_columns import has_subquery, of_rows, recursive_source
from views.maintain.touched.search_plan import Find, Finder
from views.maintain.tree.from_clause import column
from views.maintain.tree.render import all_of, quoted
from views.maintain.tree.tree import Block, Recursion, Source, reads, replaced_source

_NO_WAY = "a recursive query may reach any row from a changed one"


def touched_roots(
    finder: Finder, query: Recursion, steps: tuple[Step, ...], roots: tuple[int, ...]
) -> list[str]:
    """The touched values of the carried columns, as ``h`` and their position."""
    if steps[0].name == "anchor":
        wanted = [(f"h{place}", place) for place in roots]
        return finder.query(query.anchor, steps[1:], wanted, Find.BOTH)
    itself = recursive_source(query)
    if itself is None or not isinstance(query.step, Block):
        raise NoWayError(_NO_WAY)
    backwards = _backwards(query, query.step, itself, roots)
    if backwards is not None:
        return [backwards.sql(finder, steps[1:], roots)]
    step = replaced_source(query.step, itself.alias, query)
    nodes = [(f"h{place}", column(itself.alias, query.columns[place])) for place in roots]
    return finder.rows(step, steps[1:], nodes, Find.ALL)


@dataclass(frozen=True, slots=True)
class _Backwards:
    """The step the other way: by column of the recursive query, ``before`` is what a row has that
    the step reads, ``after`` what the row has that it makes, both over the rest of its FROM."""

    step: Block
    anchor: Block
    places: dict[str, int]
    before: dict[str, exp.Expr]

    def sql(self, finder: Finder, steps: tuple[Step, ...], roots: tuple[int, ...]) -> str:
        writer = finder.writer()
        names = ", ".join(quoted(name) for name in self.before)
        wanted = list(self.before.items())
        start = " UNION ".join(finder.rows(self.step, steps, wanted, Find.ALL))
        shown = ", ".join(
            f"{writer.node(node)} AS {quoted(name)}" for name, node in self.before.items()
        )
        assert self.step.tree is not None
        assert self.anchor.tree is not None
        made = {name: self.step.outputs[place].node for name, place in self.places.items()}
        again = [f"({writer.node(node)}) = w.{quoted(name)}" for name, node in made.items()]
        again += [writer.node(node) for node in self.step.where]
        first = {name: self.anchor.outputs[place].node for name, place in self.places.items()}
        begun = [f"({writer.node(node)}) = w.{quoted(name)}" for name, node in first.items()]
        anchors = [
            f"{writer.node(self.anchor.outputs[place].node)} AS {quoted(f'h{place}')}"
            for place in roots
        ]
        return (
            f"SELECT DISTINCT {', '.join(anchors)} FROM (WITH RECURSIVE w({names}) AS (({start}) "
            f"UNION (SELECT {shown} FROM w CROSS JOIN "
            f"{writer.tree(self.step.tree, self.step.sources)} WHERE {all_of(again)})) "
            f"SELECT {names} FROM w) AS w CROSS JOIN "
            f"{writer.tree(self.anchor.tree, self.anchor.sources)} WHERE {all_of(begun)}"
        )


def _backwards(
    query: Recursion, step: Block, itself: Source, roots: tuple[int, ...]
) -> _Backwards | None:
    anchor = query.anchor
    if not isinstance(anchor, Block) or not anchor.plain or not step.plain:
        return None
    if missing_at(step.tree, itself.alias) is not None or anchor.tree is None:
        return None
    others = {alias: item for alias, item in step.sources.items() if alias != itself.alias}
    tree = pruned(step.tree, set(others))
    carried = {query.columns[place] for place in roots}
    before = {
        name: node
        for name, node in _compared(step, itself).items()
        if name not in carried and reads(node) <= set(others) and of_rows(node)
    }
    places = {name: query.columns.index(name) for name in before}
    if not before or tree is None:
        return None
    for place in places.values():
        node = step.outputs[place].node
        if not of_rows(node) or not reads(node) or not reads(node) <= set(others):
            return None
    if not all(of_rows(anchor.outputs[place].node) for place in (*places.values(), *roots)):
        return None
    kept = [node for node in step.where if itself.alias not in reads(node)]
    kept = [node for node in kept if not has_subquery(node)]
    rest = Block(others, tree, kept, step.outputs)
    return _Backwards(rest, anchor, places, before)


def _compared(step: Block, itself: Source) -> dict[str, exp.Expr]:
    """What the step compares columns of the recursive query with, by =."""
    found: dict[str, exp.Expr] = {}
    for node in [*step.where, *certain(step.tree)]:
        if not isinstance(node, exp.EQ):
            continue
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(one, exp.Column) and one.table == itself.alias:
                found.setdefault(one.name, other)
    return found
