"""Groups that are kept by the change: their sums follow the rows that come and go. Pure.

A group of a million rows is not read for one that changes. A table of the state database has counts
and sums of each group; what a batch adds and takes away is computed from the rows of the view's
FROM, the *body*, that it touches: as they were, and as they are. Of one table these are the old and
new images of its changed rows. Of joins they are the rows with the keys of those tables that no
outer join may leave out, of which the touched ones are found first, the same in both states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from views.maintain.groups.extremes import LookedUp
from views.maintain.groups.group_plan import SUMS, GroupPlan
from views.maintain.groups.values import GROUP, GroupValues, NotKeptError, aliased
from views.maintain.indexes import Index
from views.maintain.touched.key_queries import Touched
from views.maintain.touched.links import NullComparedError
from views.maintain.touched.occurrences import occurrences
from views.maintain.touched.paths import NoWayError
from views.maintain.touched.pushdown_columns import has_subquery, of_rows
from views.maintain.touched.search_plan import Find
from views.maintain.tree.correlated_sources import own_expressions
from views.maintain.tree.derived_tables import without_derived_tables
from views.maintain.tree.from_clause import column, outer_sides
from views.maintain.tree.origin import of_node
from views.maintain.tree.render import (
    CHANGED,
    KEYS,
    Template,
    Writer,
    all_of,
    constant,
    quoted,
    where,
)
from views.maintain.tree.tree import Block, Leaf, Output, Source, Statement, aliases


def groups_of(
    statement: Statement,
    read: Mapping[str, Sequence[str]],
    key: Sequence[str],
    positions: Sequence[int],
    is_whole: bool,
    clock: bool,
) -> tuple[GroupPlan | None, str]:
    """How the groups of a view are kept by the change; else None, and why they are not.
    ``is_whole`` is a view that some changes compute whole, ``clock`` one that time changes."""
    block = statement.query
    if not isinstance(block, Block) or block.group is None:
        return None, ""
    if is_whole or clock:
        return None, "it changes with time alone" if clock else "it may be computed whole"
    try:
        whole = without_derived_tables(block)
        return _Planned(statement, whole, read, tuple(key), tuple(positions)).plan(), ""
    except (NotKeptError, NoWayError) as reason:
        return None, str(reason)
    except NullComparedError:
        return None, "NOT IN where NULL may come"


@dataclass(slots=True)
class _Planned:
    """Plans the groups of one block."""

    statement: Statement
    block: Block
    read: Mapping[str, Sequence[str]]
    key: tuple[str, ...]
    positions: tuple[int, ...]

    def plan(self) -> GroupPlan:
        block = self.block
        _check(block)
        keys, others = self._grouped()
        named = [(name, node) for name, _, node in keys] + others
        values = GroupValues(named)
        shown = [(out.name, values.over(out.node)) for out in block.outputs]
        having = [values.over(node) for node in block.having]
        direct = self._direct()
        columns = [Output(name, node) for name, node in [*named, *values.body()]]
        body = Block(block.sources, block.tree, block.where, columns)
        found, indexes = self._extremes(values, bool(direct) and not others)
        anchors = [] if direct else self._anchors()
        return GroupPlan(
            keys=tuple((name, shown_as) for name, shown_as, _ in keys),
            others=tuple(name for name, _ in others),
            plain=frozenset(name for name, node in named if self._is_plain(node)),
            texts=frozenset(name for name, node in named if self._may_be_text(node)),
            arguments=values.kept(),
            values=tuple(values.values.values()),
            grouped=bool(block.group),
            table=direct,
            anchors=tuple((label, name) for label, _, name in anchors),
            body_template=self._body(body),
            changed_template=self._changed(body, direct, anchors),
            touched_templates=() if direct else tuple(self._touched(anchors)),
            rows_template=self._rows(shown, having, found),
            indexes=indexes,
        )

    def _grouped(self) -> tuple[list[tuple[str, str, exp.Expr]], list[tuple[str, exp.Expr]]]:
        """What is grouped by: what the view's key shows, and the others."""
        block = self.block
        assert block.group is not None
        keys: list[tuple[str, str, exp.Expr]] = []
        for name, position in zip(self.key, self.positions, strict=True):
            node = block.outputs[position].node
            if any(node == part for part in block.group):
                keys.append((f"k{len(keys)}", name, node))
            elif not constant(node):
                raise NotKeptError(f"{name!r}, of its key, is nothing that it groups by")
        kept = [node for _, _, node in keys]
        others = {part.sql(): part for part in block.group if part not in kept}
        for node in [*kept, *others.values()]:
            if not of_rows(node) or constant(node):
                raise NotKeptError("it groups by what is not in a row")
        return keys, [(f"o{at}", node) for at, node in enumerate(others.values())]

    def _is_plain(self, node: exp.Expr) -> bool:
        found = of_node(self.block.sources, node)
        return found is not None and found.equal_image

    def _may_be_text(self, node: exp.Expr) -> bool:
        """Whether equal texts of an expression are one and the same if its columns are."""
        if node.find(exp.Collate) is not None:
            return False
        columns = list(node.find_all(exp.Column))
        found = [of_node(self.block.sources, part) for part in columns]
        return all(one is None or one.equal_image for one in found)

    def _direct(self) -> str:
        """The table whose changed rows are the body's; "" if they have to be looked for."""
        sources = list(self.block.sources.values())
        tables = [source for source in sources if source.table is not None]
        rest = [source for source in sources if source.table is None]
        asks = any(has_subquery(node) for node in own_expressions(self.block))
        if len(tables) != 1 or asks or any(source.call is None for source in rest):
            return ""
        if tables[0].alias in outer_sides(self.block.tree):
            return ""
        assert tables[0].table is not None
        return tables[0].table.table

    def _anchors(self) -> list[tuple[str, Source, str]]:
        """The keys of all tables that each row of the body has."""
        outer = outer_sides(self.block.tree)
        found = []
        for alias in aliases(self.block.tree):
            source = self.block.sources[alias]
            if source.table is None and source.call is None:
                raise NotKeptError("FROM holds a subquery")
            if source.table is None or alias in outer:
                continue
            found += [(source.table.table, source, name) for name in source.table.key]
        if not found:
            raise NotKeptError("each table may be missing in a row of its FULL JOIN")
        return found

    def _body(self, body: Block) -> Template:
        return Template(Writer(self.statement, self.read).block(body), self.read)

    def _changed(
        self, body: Block, direct: str, anchors: Sequence[tuple[str, Source, str]]
    ) -> Template:
        writer = Writer(self.statement, self.read)
        if direct:
            source = next(one for one in body.sources.values() if one.table is not None)
            names = ", ".join(quoted(name) for name in self.read[direct])
            writer.replaced[source.alias] = f"(SELECT {names} FROM {CHANGED})"
            return Template(writer.block(body), self.read)
        assert body.tree is not None
        tree = writer.tree(body.tree, body.sources)
        tree = tree if isinstance(body.tree, Leaf) else f"({tree})"
        same = all_of(
            f'"__touched"."d{at}" = {quoted(source.alias)}.{quoted(name)}'
            for at, (_, source, name) in enumerate(anchors)
        )
        shown = aliased([(out.name, writer.node(out.node)) for out in body.outputs])
        asked = where([writer.node(node) for node in body.where])
        made = f'SELECT {shown} FROM {CHANGED} AS "__touched" JOIN {tree} ON {same} {asked}'
        return Template(made.rstrip(), self.read)

    def _touched(self, anchors: Sequence[tuple[str, Source, str]]) -> list[tuple[str, Template]]:
        """The anchors that a change of each table touches."""
        outputs = [
            Output(f"d{at}", column(source.alias, name))
            for at, (_, source, name) in enumerate(anchors)
        ]
        block = self.block
        plain = Block(block.sources, block.tree, block.where, outputs)
        wanted = [(out.name, at) for at, out in enumerate(outputs)]
        statement = Statement(self.statement.view, plain, self.statement.subqueries)
        found = []
        for one in occurrences(statement):
            touched = Touched(statement, self.read)
            parts = touched.query(plain, one.steps, wanted, Find.BOTH)
            found += [(one.table.table, Template(part, self.read)) for part in parts]
        return found

    def _extremes(
        self, values: GroupValues, simple: bool
    ) -> tuple[list[tuple[str, str]], tuple[Index, ...]]:
        """min and max as SQL, and the indexes that they need; ``simple``: of one table by its
        view's key."""
        if not values.extremes:
            return [], ()
        if not simple or len(self.block.sources) > 1:
            raise NotKeptError("min or max over several tables, or of groups beside the key")
        looked_up = LookedUp(self.statement, self.read, values.named)
        return looked_up.extremes(self.block, list(values.extremes.values()))

    def _rows(
        self,
        shown: Sequence[tuple[str, str]],
        having: Sequence[str],
        extremes: Sequence[tuple[str, str]],
    ) -> Template:
        grouped = quoted(GROUP)
        found = "".join(f", {sql} AS {quoted(name)}" for name, sql in extremes)
        sums = f"(SELECT {grouped}.*{found} FROM {SUMS} AS {grouped}) AS {grouped}"
        made = f"SELECT {aliased(shown)} FROM {sums} {where(having)}".rstrip()
        names = [quoted(name) for name in self.key]
        asked = [f"v.{name} = ANY(ARRAY(SELECT {name} FROM {KEYS}))" for name in names]
        if len(names) > 1:
            same = " AND ".join(f"k.{name} = v.{name}" for name in names)
            asked.append(f"EXISTS (SELECT FROM {KEYS} AS k WHERE {same})")
        return Template(f"SELECT v.* FROM ({made}) AS v WHERE {' AND '.join(asked)}", self.read)


def _check(block: Block) -> None:
    if block.sets is not None:
        raise NotKeptError("GROUPING SETS")
    if block.windows or block.distinct or block.distinct_on or block.limit:
        raise NotKeptError("what is shown is computed over several groups")
    if block.tree is None:
        raise NotKeptError("it reads no table")
    if any(one.query is not None or one.recursion for one in block.sources.values()):
        raise NotKeptError("FROM holds a subquery")
