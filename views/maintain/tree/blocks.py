"""One SELECT made a block of the tree: its clauses resolved. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from views.function_names import words
from views.maintain.tree import functions
from views.maintain.tree.errors import refuse
from views.maintain.tree.from_clause import Frame, FromClause, column
from views.maintain.tree.grouping_sets import expanded, is_set, members
from views.maintain.tree.tree import Block, Output, Source, conjuncts

_KNOWN = words(
    "with_ expressions from_ joins where group having windows distinct order limit offset fetch "
    "kind hint"
)
_REFUSED = {
    "locks": ("row locks have no place in a view", "leave it out"),
    "into": ("SELECT INTO is not a view", "leave it out"),
    "sample": ("TABLESAMPLE takes other rows each time", "leave it out"),
}


@dataclass(slots=True)
class Blocks:
    """Resolves one SELECT: ``source`` an item of its FROM, ``expression`` an expression, both in
    the frame that holds what stands before."""

    view: str
    node: exp.Select
    source: Callable[[exp.Expr, Frame], Source]
    expression: Callable[[exp.Expr, Frame], exp.Expr]
    frame: Frame = field(default_factory=Frame)

    def block(self) -> Block:
        """The block. Raises ``ViewError`` for clauses that are not known."""
        node, view = self.node, self.view
        for part, value in node.args.items():
            if value and part not in _KNOWN:
                reason, hint = _REFUSED.get(part, (f"the clause {part} is not known here", ""))
                refuse(view, node, reason, hint)
        clause = FromClause(view, self.frame, self.source, self.expression)
        first = node.args.get("from_")
        items = [first.this, *(node.args.get("joins") or [])] if first is not None else []
        tree = clause.tree(items)
        block = Block(clause.sources, tree, [], [], node=node)
        where = node.args.get("where")
        block.where = conjuncts(self._expression(where.this)) if where is not None else []
        block.outputs = self._outputs()
        self._grouping(block)
        self._stages(block)
        return block

    def _expression(self, node: exp.Expr) -> exp.Expr:
        return self.expression(node, self.frame)

    def _outputs(self) -> list[Output]:
        made: list[Output] = []
        for item in self.node.expressions:
            if isinstance(item, exp.Star):
                made += [Output(shown.name, shown.node.copy()) for shown in self.frame.shown]
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                made += self._of_table(item)
            else:
                inner = item.this if isinstance(item, exp.Alias) else item
                node = self._windowed(self._expression(inner))
                if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                    reason = "a whole row is not a column here"
                    refuse(self.view, item, reason, "name its columns, or write to_jsonb")
                made.append(Output(_name(item), node))
        return made

    def _of_table(self, item: exp.Column) -> list[Output]:
        if item.table not in self.frame.called:
            refuse(self.view, item, f"no table is called {item.table!r} here")
        alias = self.frame.called[item.table].alias
        columns = self.frame.called[item.table].columns
        shown = {part.name: part for part in self.frame.shown if part.source == alias}
        return [
            Output(name, shown[name].node.copy() if name in shown else column(alias, name))
            for name in columns
        ]

    def _windowed(self, node: exp.Expr) -> exp.Expr:
        """Named windows written out where they are used."""
        named = {item.name: item for item in self.node.args.get("windows") or []}

        def made(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Window) and part.args.get("alias") is not None:
                return self._written_out(part, named)
            return part

        return node.transform(made) if named else node

    def _written_out(self, node: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
        called = node.args["alias"].name
        found = named.get(called)
        if found is None:
            refuse(self.view, node, f"no window is called {called!r}")
        if found.args.get("alias") is not None:
            found = self._written_out(found.copy(), named)
        made = node.copy()
        made.set("alias", None)
        partition = [self._expression(item) for item in found.args.get("partition_by") or []]
        if found.args.get("order") is not None and made.args.get("order") is None:
            order = found.args["order"].copy()
            order.set("expressions", [self._expression(item) for item in order.expressions])
            made.set("order", order)
        made.set("partition_by", made.args.get("partition_by") or partition)
        if made.args.get("spec") is None and found.args.get("spec") is not None:
            made.set("spec", found.args["spec"].copy())
        return made

    def _by_item(self, item: exp.Expr, outputs: list[Output], input_first: bool) -> exp.Expr:
        """An item of GROUP BY, ORDER BY or DISTINCT ON: a position, an output, an expression."""
        if isinstance(item, exp.Literal) and item.is_int:
            number = int(item.this)
            if not 1 <= number <= len(outputs):
                refuse(self.view, item, f"position {number} is not in the select list")
            return outputs[number - 1].node.copy()
        if isinstance(item, exp.Column) and not item.table:
            shown = any(part.name == item.name for part in self.frame.shown)
            named = [output for output in outputs if output.name == item.name]
            if named and not (shown and input_first):
                return named[0].node.copy()
        return self._windowed(self._expression(item))

    def _grouping(self, block: Block) -> None:
        node = self.node
        group = node.args.get("group")
        having = node.args.get("having")
        block.having = conjuncts(self._expression(having.this)) if having is not None else []
        if group is not None:
            if group.args.get("all"):
                refuse(self.view, group, "GROUP BY ALL is not known here", "name them")
            items = group.expressions
            if any(is_set(item) for item in items):
                self._sets(block, group)
            else:
                plain = [part for item in items for part in members(item)]
                block.group = [self._by_item(item, block.outputs, True) for item in plain]
        elif having is not None or any(functions.aggregates(out.node) for out in block.outputs):
            block.group = []

    def _sets(self, block: Block, group: exp.Group) -> None:
        made = group.copy()

        def item(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) or (isinstance(part, exp.Literal) and part.is_int):
                return self._by_item(part, block.outputs, True)
            return part

        block.sets = made.transform(item)
        found = [part for one in expanded(block.sets.expressions) for part in one]
        block.group = list({part.sql(): part for part in found}.values())

    def _stages(self, block: Block) -> None:
        node, outputs = self.node, block.outputs
        block.windows = [
            window for output in outputs for window in output.node.find_all(exp.Window)
        ]
        distinct = node.args.get("distinct")
        if distinct is not None:
            on = distinct.args.get("on")
            block.distinct = on is None
            items = members(on) if on is not None else []
            block.distinct_on = [self._by_item(item, outputs, False) for item in items]
        order = node.args.get("order")
        for ordered in order.expressions if order is not None else []:
            made = ordered.copy()
            inner = made.this if isinstance(made, exp.Ordered) else made
            by = self._by_item(inner, outputs, False)
            if isinstance(made, exp.Ordered):
                made.set("this", by)
            else:
                made = by
            block.order.append(made)
        names = ("limit", "fetch", "offset")
        parts = [node.args[name] for name in names if node.args.get(name) is not None]
        block.limit = [self._expression(part) for part in parts]


def _name(item: exp.Expr) -> str:
    """What PostgreSQL calls a column of the select list."""
    if isinstance(item, exp.Alias):
        return item.alias
    node = item.unnest()
    if isinstance(node, exp.Column | exp.Anonymous):
        return node.name.lower() if isinstance(node, exp.Anonymous) else node.name
    if isinstance(node, exp.Cast):
        return _name(node.this)
    if isinstance(node, exp.Window | exp.Filter | exp.WithinGroup):
        return _name(node.this)
    if isinstance(node, exp.Case | exp.Extract):
        return type(node).__name__.lower()
    return "?column?"
