"""The SQL of key queries: from the changed rows of one occurrence to the keys they touch. Pure.

``SOME`` of the touched values suffices at the top: each is found in the state before or in the
state after. Below a group or a window all values of a state have to be found in that state
(``ALL``), and what picks its groups or partitions has to be the same in both (``BOTH``): old and
new images together, and tables read in both states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from sqlglot import exp

from views.maintain.from_clause import column
from views.maintain.links import linked
from views.maintain.occurrences import Step
from views.maintain.passing import (
    column_passes,
    handles,
    has_subquery,
    of_rows,
    passes,
)
from views.maintain.paths import Level, NoWayError, Route, Search, matched, missing_at
from views.maintain.render import BOTH as BOTH_STATES
from views.maintain.render import CHANGED, Writer, quoted, where
from views.maintain.tree import (
    Block,
    Output,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    aliases,
    joins,
    reads,
)


class Find(Enum):
    """How much of what is touched has to be found; see above."""

    SOME = 1
    ALL = 2
    BOTH = 3


Wanted = Sequence[tuple[str, exp.Expr]]


@dataclass(slots=True)
class Touched:
    """Writes the key queries of one occurrence. ``beside`` becomes true when old and new images
    are needed in either state."""

    statement: Statement
    columns: Mapping[str, Sequence[str]]
    beside: bool = False
    made: int = 0
    both_states: set[str] = field(default_factory=set)

    def query(
        self, query: Query, steps: tuple[Step, ...], wanted: Sequence[tuple[str, int]], find: Find
    ) -> list[str]:
        """SELECTs that together give the touched values of a query's columns, by position."""
        if isinstance(query, SetOperation):
            if query.limit:
                raise NoWayError("LIMIT lets any row push another one out")
            if query.kind != "union" and find is Find.ALL:
                find = Find.BOTH
            side = query.left if steps[0].name == "left" else query.right
            return self.query(side, steps[1:], wanted, find)
        if isinstance(query, Recursion):
            raise NoWayError("a recursive query may reach any row from a changed one")
        exprs = [(name, query.outputs[position].node) for name, position in wanted]
        return self.block(query, steps, exprs, find)

    def block(self, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find) -> list[str]:
        """The touched values of expressions over a block's result."""
        if block.limit:
            raise NoWayError("LIMIT lets any row push another one out")
        if block.plain:
            return self.rows(block, steps, wanted, find)
        if all(passes(block, node) for _, node in wanted):
            only_distinct = block.distinct and replace(block, distinct=False).plain
            if not only_distinct and find is Find.ALL:
                find = Find.BOTH
            return self.rows(block, steps, wanted, find)
        if find is Find.BOTH:
            raise NoWayError("it depends on values that are computed from several rows")
        prefixes = handles(block)
        if prefixes is None:
            raise NoWayError(_no_prefix(block))
        return [self._under(block, steps, wanted, prefix) for prefix in prefixes]

    def _under(
        self, block: Block, steps: tuple[Step, ...], wanted: Wanted, prefix: list[exp.Expr]
    ) -> str:
        """All values under the touched prefixes, as they are in one state."""
        named = [(f"h{number}", node) for number, node in enumerate(prefix)]
        touched = self.rows(block, steps, named, Find.BOTH)
        return self.enumerated(block, wanted, named, touched)

    def enumerated(
        self, block: Block, wanted: Wanted, prefix: Wanted, touched: Sequence[str]
    ) -> str:
        """The values of expressions in the rows of a block that have a touched prefix."""
        self.made += 1
        called = quoted(f"__touched_{self.made}")
        writer = self._writer()
        conditions = within(writer, prefix, called)
        given = f"WITH {called} AS MATERIALIZED ({' UNION '.join(touched)}) "
        outputs = [Output(name, node) for name, node in wanted]
        if all(of_rows(node) for _, node in wanted):
            kept = [node for node in block.where if not has_subquery(node)]
            plain = Block(block.sources, block.tree, kept, outputs, distinct=True)
        else:
            plain = replace(block, outputs=outputs, having=[], order=block.order)
        writer.extra[id(plain)] = conditions
        return given + writer.block(plain)

    def rows(self, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find) -> list[str]:
        """The touched values of expressions over the rows of a block's FROM."""
        for _, node in wanted:
            if has_subquery(node):
                raise NoWayError("the key is computed by a subquery")
        step, level = steps[0], Level(block.tree, block.sources, block.where)
        if step.kind == "subquery":
            if step.clause in ("on", "limit", "call"):
                raise NoWayError(
                    "a subquery in ON of an outer join, in LIMIT or in FROM's functions"
                )
            return self._through(block, steps, [level], wanted, find)
        source = block.sources[step.name]
        if source.lateral and source.query is not None:
            return self._lateral(block, source, steps, level, wanted, find)
        join = missing_at(block.tree, source.alias)
        if join is None:
            return [self._joined([level], source, steps[1:], wanted, find)]
        if join.kind == "full":
            return self._full(block, source, steps, wanted, find)
        return self._outer(block, source, steps, wanted, find)

    def _outer(
        self, block: Block, source: Source, steps: tuple[Step, ...], wanted: Wanted, find: Find
    ) -> list[str]:
        """The changed rows may be missing: what they are looked up for is touched."""
        join = missing_at(block.tree, source.alias)
        assert join is not None
        assert block.tree is not None
        shown = {alias for _, node in wanted for alias in reads(node)}
        inside = set(aliases(join.right))
        if not shown & inside:
            gone = inside
            kept = [node for node in block.where if not reads(node) & gone]
            level = Level(matched(block.tree, source.alias), block.sources, kept)
            if find is Find.SOME:
                return [self._joined([level], source, steps[1:], wanted, find)]
            return [self._joined([level], source, steps[1:], wanted, Find.BOTH, inside)]
        if find is Find.BOTH:
            raise NoWayError("it depends on whether a row of an outer join is there")
        return [self._by_partners(block, source, steps, wanted, list(join.on), inside)]

    def _by_partners(
        self,
        block: Block,
        source: Source,
        steps: tuple[Step, ...],
        wanted: Wanted,
        on: list[exp.Expr],
        inside: set[str],
    ) -> str:
        """The values in all rows whose partner may have changed, by what ON compares."""
        found = {
            (part.table, part.name): part
            for node in on
            for part in node.find_all(exp.Column)
            if part.table not in inside and part.table in block.sources
        }
        if not found or any(has_subquery(node) for node in on):
            raise NoWayError("nothing in ON of the outer join says which rows belong to a change")
        assert block.tree is not None
        prefix = [(f"h{n}", column(*key)) for n, key in enumerate(sorted(found))]
        kept = [node for node in block.where if not reads(node) & inside]
        level = Level(matched(block.tree, source.alias), block.sources, kept)
        touched = self._joined([level], source, steps[1:], prefix, Find.BOTH, inside)
        return self.enumerated(block, wanted, prefix, [touched])

    def _full(
        self, block: Block, source: Source, steps: tuple[Step, ...], wanted: Wanted, find: Find
    ) -> list[str]:
        """FULL JOIN: rows of either side may be missing."""
        join = missing_at(block.tree, source.alias)
        assert join is not None
        left = source.alias in aliases(join.left)
        own, other = (join.left, join.right) if left else (join.right, join.left)
        alike = [(name, _own_side(node, join.on, set(aliases(own)))) for name, node in wanted]
        if all(reads(node) <= set(aliases(own)) for _, node in alike):
            inner = Block({a: block.sources[a] for a in aliases(own)}, own, [], [])
            find = Find.BOTH if find is Find.ALL else find
            return self.rows(inner, steps, alike, find)
        if find is Find.BOTH:
            raise NoWayError("it depends on whether a row of an outer join is there")
        return self._both_sides(block, source, steps, wanted, own, other, join.on)

    def _both_sides(self, block, source, steps, wanted, own, other, on) -> list[str]:  # type: ignore[no-untyped-def]
        sides = []
        for side in (set(aliases(own)), set(aliases(other))):
            found = {
                (part.table, part.name)
                for node in on
                for part in node.find_all(exp.Column)
                if part.table in side
            }
            if not found:
                raise NoWayError(
                    "nothing in ON of the outer join says which rows belong to a change"
                )
            prefix = [(f"h{n}", column(*key)) for n, key in enumerate(sorted(found))]
            from views.maintain.tree import Joined

            tree = Joined("inner", own, other, on)
            sources = {a: block.sources[a] for a in aliases(tree)}
            if side == set(aliases(own)):
                level = Level(own, {a: block.sources[a] for a in aliases(own)}, [])
            else:
                level = Level(matched(tree, source.alias), sources, [])
            touched = self._joined([level], source, steps[1:], prefix, Find.BOTH, set(aliases(own)))
            sides.append(self.enumerated(block, wanted, prefix, [touched]))
        return sides

    def _lateral(
        self,
        block: Block,
        source: Source,
        steps: tuple[Step, ...],
        level: Level,
        wanted: Wanted,
        find: Find,
    ) -> list[str]:
        """A LATERAL subquery: the rows it is run for are touched, and all that it gives them."""
        shown = {alias for _, node in wanted for alias in reads(node)}
        assert block.tree is not None
        if missing_at(block.tree, source.alias) is not None:
            level = Level(matched(block.tree, source.alias), block.sources, level.where)
        if source.alias not in shown:
            return self._through(block, steps, [level], wanted, find)
        if find is Find.BOTH:
            raise NoWayError("it depends on what a LATERAL subquery gives")
        found = sorted(linked(self.statement, block, steps[0], steps[1:]))
        if not found:
            raise NoWayError("nothing says for which rows a LATERAL subquery reads a change")
        prefix = [(f"h{n}", column(*key)) for n, key in enumerate(found)]
        touched = self._through(block, steps, [level], prefix, Find.BOTH)
        return [self.enumerated(block, wanted, prefix, touched)]

    def _through(
        self,
        block: Block,
        steps: tuple[Step, ...],
        levels: list[Level],
        wanted: Wanted,
        find: Find,
    ) -> list[str]:
        """Through a subquery: its rows are joined to those of the block by its correlation."""
        from views.maintain.links import opened

        inner, rest, more = opened(self.statement, block, steps)
        if find is Find.ALL:
            find = Find.BOTH
        own = set(block.sources)
        deeper = [*levels, *more]
        source = inner.sources[rest[0].name]
        inside = {alias for level in more for alias in level.sources}
        if missing_at(inner.tree, source.alias) is not None:
            assert inner.tree is not None
            last = deeper[-1]
            gone = set(aliases(missing_at(inner.tree, source.alias)))
            kept = [node for node in last.where if not reads(node) & gone]
            deeper[-1] = Level(_loosened(inner, source), last.sources, kept)
        removed = steps[0].name if steps[0].kind == "source" else ""
        if removed:
            deeper[0] = _without(deeper[0], removed)
        del own
        return [self._joined(deeper, source, rest[1:], wanted, find, inside)]

    def _joined(
        self,
        levels: list[Level],
        source: Source,
        steps: tuple[Step, ...],
        wanted: Wanted,
        find: Find,
        inside: set[str] | None = None,
    ) -> str:
        """The way from one source to the expressions, its changed rows in its place.

        ``inside`` are the sources that are read in both states when ``find`` is BOTH; all of them
        if it is not given.
        """
        usable = None
        if source.query is not None:
            usable = frozenset(
                name
                for position, name in enumerate(source.columns)
                if column_passes(source.query, position)
            )
        shown = {
            part.name
            for _, node in wanted
            for part in node.find_all(exp.Column)
            if part.table == source.alias
        }
        if usable is not None and not shown <= usable and find is not Find.BOTH:
            usable, find = None, Find.ALL
        search = Search(levels, source.alias, usable, self.statement.subqueries)
        route = search.route([node for _, node in wanted])
        others = [item for item in route.sources.values() if item.alias != source.alias]
        if find is Find.SOME and source.query is not None and any(o.query for o in others):
            find = Find.ALL
        return self._written(route, source, steps, wanted, find, inside)

    def _written(
        self,
        route: Route,
        source: Source,
        steps: tuple[Step, ...],
        wanted: Wanted,
        find: Find,
        inside: set[str] | None,
    ) -> str:
        writer = self._writer()
        for alias, item in route.sources.items():
            both = find is Find.BOTH and (inside is None or alias in inside)
            if alias == source.alias:
                writer.replaced[alias] = self._changed(route, source, steps, wanted, find)
            elif both and item.table is not None:
                writer.replaced[alias] = writer.table(item.table, BOTH_STATES)
                self.both_states.add(item.table.table)
            elif both and item.query is not None:
                raise NoWayError(f"{alias} has to be known in both states at once")
        shown = ", ".join(f"{writer.node(node)} AS {quoted(name)}" for name, node in wanted)
        items = ", ".join(writer.tree(tree, route.sources) for tree in route.trees)
        conditions = where([writer.node(node) for node in route.where])
        return f"SELECT DISTINCT {shown} FROM {items} {conditions}".rstrip()

    def _changed(
        self,
        route: Route,
        source: Source,
        steps: tuple[Step, ...],
        wanted: Wanted,
        find: Find,
    ) -> str:
        """The changed rows of a source, with the columns that the way reads."""
        if source.table is not None:
            self.beside = self.beside or find is Find.BOTH
            names = ", ".join(quoted(name) for name in self.columns[source.table.table])
            return f"(SELECT {names} FROM {CHANGED})"
        assert source.query is not None
        nodes = [node for _, node in wanted] + route.where
        nodes += [node for tree in route.trees for join in joins(tree) for node in join.on]
        read = {
            part.name
            for node in nodes
            for part in node.find_all(exp.Column)
            if part.table == source.alias
        }
        needed = [(name, position) for position, name in enumerate(source.columns) if name in read]
        if not needed:
            raise NoWayError(f"nothing says which rows belong to a change of {source.alias}")
        parts = self.query(source.query, steps, needed, find)
        return f"({' UNION '.join(f'({part})' for part in parts)})"

    def _writer(self) -> Writer:
        return Writer(self.statement, self.columns)


def within(
    writer: Writer, prefix: Wanted, called: str, sure: frozenset[str] = frozenset()
) -> list[str]:
    """Conditions: the expressions have values that a row of ``called`` has, NULL as any other."""
    made = []
    for name, node in prefix:
        sql, value = writer.node(node), quoted(name)
        listed = f"{sql} = ANY(ARRAY(SELECT {value} FROM {called}))"
        none = f"{sql} IS NULL AND EXISTS (SELECT FROM {called} WHERE {value} IS NULL)"
        made.append(listed if name in sure else f"{listed} OR ({none})")
    if len(prefix) > 1:
        same = " AND ".join(
            f"t.{quoted(name)} IS NOT DISTINCT FROM {writer.node(node)}" for name, node in prefix
        )
        made.append(f"EXISTS (SELECT FROM {called} AS t WHERE {same})")
    return made


def _own_side(node: exp.Expr, on: Sequence[exp.Expr], own: set[str]) -> exp.Expr:
    """``coalesce(a.k, b.k)`` of a join on a.k = b.k, as one side knows it."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "coalesce":
        return node
    parts: list[exp.Expr] = node.expressions
    for part in parts:
        if reads(part) and reads(part) <= own:
            equal = [
                other
                for other in parts
                if other is not part
                and any(
                    isinstance(cond, exp.EQ) and {cond.this, cond.expression} == {part, other}
                    for cond in on
                )
            ]
            if len(equal) == len(parts) - 1:
                return part
    return node


def _loosened(inner: Block, source: Source):  # type: ignore[no-untyped-def]
    assert inner.tree is not None
    return matched(inner.tree, source.alias)


def _without(level: Level, alias: str) -> Level:
    from views.maintain.paths import _pruned

    keep = {name for name in level.sources if name != alias}
    sources = {name: item for name, item in level.sources.items() if name != alias}
    where = [node for node in level.where if alias not in reads(node)]
    return Level(_pruned(level.tree, keep), sources, where)


def _no_prefix(block: Block) -> str:
    if block.sets is not None:
        return "a group of GROUPING SETS is part of others"
    if block.windows:
        return "a window without PARTITION BY lets one row change all others"
    return "an aggregate without GROUP BY changes with each row"
