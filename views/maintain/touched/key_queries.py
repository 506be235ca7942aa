"""The SQL of key queries: from the changed rows of one occurrence to the keys they touch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from views.maintain.pushdown import Values, push
from views.maintain.touched.joined_rows import joined
from views.maintain.touched.occurrences import Step
from views.maintain.touched.partners import lateral, outer, through, through_full
from views.maintain.touched.paths import Level, NoWayError, missing_at
from views.maintain.touched.pushdown_columns import carried, handles, has_subquery, of_rows, passes
from views.maintain.touched.recursion import touched_roots
from views.maintain.touched.search_plan import Find, Wanted
from views.maintain.tree.grouping_sets import sets_of
from views.maintain.tree.render import Writer, quoted, within
from views.maintain.tree.tree import (
    Block,
    Output,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
)

_LIMIT = "LIMIT lets any row push another one out"


@dataclass(slots=True)
class Touched:
    """Writes the key queries of one occurrence; see ``Finder``.

    ``beside`` becomes true when old and new images are needed in either state, ``both_states`` are
    the tables that are read in both at once. ``gated`` are subqueries of NOT IN whose NULLs are
    looked after by a gate.
    """

    statement: Statement
    columns: Mapping[str, Sequence[str]]
    beside: bool = False
    both_states: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    made: int = 0

    def writer(self) -> Writer:
        """What writes SQL of the statement."""
        return Writer(self.statement, self.columns)

    def query(
        self, query: Query, steps: tuple[Step, ...], wanted: Sequence[tuple[str, int]], find: Find
    ) -> list[str]:
        """SELECTs that together give the touched values of a query's columns, by position."""
        if isinstance(query, SetOperation):
            if query.limit:
                raise NoWayError(_LIMIT)
            if query.kind != "union" and find is Find.ALL:
                find = Find.BOTH
            side = query.left if steps[0].name == "left" else query.right
            return self.query(side, steps[1:], wanted, find)
        if isinstance(query, Recursion):
            return self._recursion(query, steps, wanted, find)
        exprs = [(name, query.outputs[position].node) for name, position in wanted]
        return self._block(query, steps, exprs, find)

    def _recursion(
        self,
        query: Recursion,
        steps: tuple[Step, ...],
        wanted: Sequence[tuple[str, int]],
        find: Find,
    ) -> list[str]:
        """All rows of the roots from which a changed row is reached."""
        roots = carried(query)
        if not roots or find is Find.BOTH:
            raise NoWayError("a recursive query may reach any row from a changed one")
        touched = touched_roots(self, query, steps, roots)
        self.made += 1
        called = quoted(f"__touched_{self.made}")
        writer = self.writer()
        bounds = {place: Values(quoted(f"h{place}"), called) for place in roots}
        push(writer, query.anchor, bounds)
        shown = ", ".join(f"q.{quoted(query.columns[at])} AS {quoted(name)}" for name, at in wanted)
        same = " AND ".join(
            f"t.{quoted(f'h{place}')} IS NOT DISTINCT FROM q.{quoted(query.columns[place])}"
            for place in roots
        )
        return [
            f"WITH {called} AS MATERIALIZED ({' UNION '.join(touched)}) SELECT DISTINCT {shown} "
            f"FROM ({writer.query(query)}) AS q WHERE EXISTS (SELECT FROM {called} AS t "
            f"WHERE {same})"
        ]

    def _block(
        self, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find
    ) -> list[str]:
        """The touched values of expressions over a block's result."""
        if block.limit:
            raise NoWayError(_LIMIT)
        if block.plain:
            return self.rows(block, steps, wanted, find)
        if block.sets is not None:
            return self._sets(block, steps, wanted, find)
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

    def _sets(self, block: Block, steps: tuple[Step, ...], wanted: Wanted, find: Find) -> list[str]:
        """Each grouping set by itself: what is not in it is NULL."""
        if find is not Find.SOME:
            raise NoWayError("a group of GROUPING SETS is part of others")
        found: list[str] = []
        for one in sets_of(block, wanted):
            found += self._block(one.block, steps, one.wanted, find)
        return found

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
        writer = self.writer()
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
        if any(has_subquery(node) for _, node in wanted):
            raise NoWayError("the key is computed by a subquery")
        step = steps[0]
        level = Level(block.tree, block.sources, block.where)
        if step.kind == "subquery":
            return through(self, block, steps, [level], wanted, find)
        source = block.sources[step.name]
        if source.lateral and source.query is not None:
            return lateral(self, block, steps, wanted, find)
        join = missing_at(block.tree, source.alias)
        if join is None:
            return [self.joined([level], source, steps[1:], wanted, find)]
        if join.kind == "full":
            return through_full(self, block, steps, wanted, find)
        return outer(self, block, steps, wanted, find)

    def joined(
        self,
        levels: Sequence[Level],
        source: Source,
        steps: tuple[Step, ...],
        wanted: Wanted,
        find: Find,
        inside: frozenset[str] | None = None,
    ) -> str:
        """The way from the changed rows of a source to expressions.

        ``inside`` are the sources that are read in both states when ``find`` is BOTH; all of them
        if it is not given.
        """
        return joined(self, levels, source, steps, wanted, find, inside)


def _no_prefix(block: Block) -> str:
    if block.windows:
        return "a window without PARTITION BY lets one row change all others"
    return "an aggregate without GROUP BY changes with each row"
