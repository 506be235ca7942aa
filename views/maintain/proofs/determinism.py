"""What would come out another way the next time: orders that leave ties, floats added up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sqlglot import exp

from views.function_names import words
from views.maintain.proofs.key_proof import KeyProof
from views.maintain.proofs.settled_columns import Settled
from views.maintain.touched.pushdown_columns import built_of, of_rows
from views.maintain.tree import functions
from views.maintain.tree.correlated_sources import blocks, own_expressions
from views.maintain.tree.errors import refuse
from views.maintain.tree.origin import of_node
from views.maintain.tree.tree import Block, SetOperation, Statement

_BY_PLACE = words("row_number ntile lag lead first_value last_value nth_value")
_LISTS = words(
    """
    array_agg json_agg json_agg_strict json_object_agg json_object_agg_strict jsonb_agg
    jsonb_agg_strict jsonb_object_agg string_agg xmlagg
    """
)
_SUMS = words("sum avg stddev stddev_pop stddev_samp var_pop var_samp variance corr")
_EXTREMES = ("min", "max")
_TEXTS = words("text varchar citext name") | {"character varying"}
"""Of which different ones are equal under some collations, and always to citext."""
_PADDED = words("char character bpchar")
_NO_TEXT = (
    *(exp.Predicate, exp.Connector, exp.Not),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
)
"""Whose value is a truth or a number, whatever texts it is made of."""
_LENGTHS = words("ascii bit_length char_length character_length length octet_length strpos")
_FLOATS = ("double precision", "real")
_APPEND = "append the key of its rows to ORDER BY"


def check_orders(statement: Statement) -> bool:
    """Raise ``ViewError`` where the same rows may give another result; return whether a list was
    given the order that it has, by the keys of its rows behind what orders it."""
    completed = False
    for block in blocks(statement.query, statement.subqueries):
        orders = _Orders(statement, block)
        orders.check()
        completed = completed or orders.completed
    if isinstance(statement.query, SetOperation) and statement.query.limit:
        named = {part.name for item in statement.query.order for part in item.find_all(exp.Column)}
        if set(statement.query.columns) - named:
            refuse(statement.view, statement.query.node, "LIMIT over an order that leaves ties",
                   "name all columns in ORDER BY")  # fmt: skip
    return completed


@dataclass(slots=True)
class _Orders:
    """The orders of one block; ``completed`` once one of them was."""

    statement: Statement
    block: Block
    completed: bool = False

    def check(self) -> None:
        block = self.block
        outputs = [output.node for output in block.outputs]
        if block.limit and not _with_ties(block):
            self._check_limit(outputs)
        if block.distinct_on and not self._total(block.distinct_on, block.order, outputs):
            refuse(self.statement.view, block.node, "DISTINCT ON over an order that leaves ties",
                   _APPEND)  # fmt: skip
        for node in own_expressions(block):
            for part in list(node.walk()):
                if isinstance(part, exp.Window):
                    self._check_window(part)
                if functions.name(part) in _EXTREMES:
                    self._check_extreme(part)
                elif functions.name(part) in _LISTS | _SUMS and not _in_window(part):
                    self._check_aggregate(part)

    def _check_limit(self, outputs: Sequence[exp.Expr]) -> None:
        if not self.block.order and any(not built_of(node, []) for node in outputs):
            refuse(self.statement.view, self.block.node, "LIMIT without ORDER BY takes any rows",
                   "write ORDER BY with the key at its end")  # fmt: skip
        if not self._total([], self.block.order, outputs):
            refuse(self.statement.view, self.block.node, "LIMIT over an order that leaves ties",
                   _APPEND + ", or write FETCH FIRST n ROWS WITH TIES")  # fmt: skip

    def _check_window(self, node: exp.Window) -> None:
        order = node.args.get("order")
        items = list(order.expressions) if order is not None else []
        spec = node.args.get("spec")
        by_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
        name = functions.name(_called(node))
        if name not in _BY_PLACE | _LISTS and not by_rows:
            return
        given = node.args.get("partition_by") or []
        shown = [_called(node)] if name in _LISTS else []
        if not self._total(given, items, shown or None):
            refuse(self.statement.view, node, "its order leaves ties: another row may come first",
                   _APPEND)  # fmt: skip

    def _check_aggregate(self, node: exp.Expr) -> None:
        arguments = [part for part in node.expressions if not isinstance(part, exp.Order)]
        ordered = [part for part in node.expressions if isinstance(part, exp.Order)]
        items = [item for part in ordered for item in part.expressions]
        arguments += [part.this for part in ordered if part.this is not None]
        name = functions.name(node)
        if name in _SUMS and not any(self._is_float(part) for part in arguments):
            return
        distinct = any(isinstance(part, exp.Distinct) for part in arguments)
        values = None if name in _SUMS else arguments
        if distinct or self._total(self.block.group or [], items, values, rows=True):
            return
        if name in _SUMS:
            hint = f"write {name}(x ORDER BY …) with the key of its rows, or cast x to numeric"
            refuse(self.statement.view, node, "floats add up by the order of the rows", hint)
        if self._complete(node):
            self.completed = True
            return
        hint = "write ORDER BY inside of it, with the key of its rows at the end"
        refuse(self.statement.view, node, "its order leaves ties: the list may change", hint)

    def _check_extreme(self, node: exp.Expr) -> None:
        """Of equal texts that are the largest it gives one, by the order of the rows."""
        name = functions.name(node)
        parts = list(_parts_of_text(node))
        columns = [part for part in parts if isinstance(part, exp.Column)]
        for column in columns if len(columns) == len(parts) else ():
            held = of_node(self.block.sources, column)
            if held is None or held.equal_image or not _is_text(held.type, _PADDED):
                continue
            refuse(
                self.statement.view, node, "different texts are equal in its column: it may give "
                "any of them", f'compare them by their bytes: {name}(x::text COLLATE "C")'
            )  # fmt: skip

    def _complete(self, node: exp.Expr) -> bool:
        """Order a list by the keys of its rows behind what orders it; false if these are not all
        rows of tables."""
        sources = self.block.sources.values()
        if any(source.table is None for source in sources) or not node.expressions:
            return False
        keys = [
            exp.Ordered(this=exp.column(name, source.alias, quoted=True))
            for source in sources
            if source.table is not None
            for name in source.table.key
        ]
        last = node.expressions[-1]
        if isinstance(last, exp.Order):
            last.set("expressions", [*last.expressions, *keys])
        else:
            last.replace(exp.Order(this=last.copy(), expressions=keys))
        return True

    def _has_one_text(self, node: exp.Expr) -> bool:
        """Whether equal values of its columns have one text."""
        held = (of_node(self.block.sources, part) for part in node.find_all(exp.Column))
        return all(one is None or one.equal_image for one in held)

    def _is_float(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Cast):
            return node.to.sql("postgres").lower() in _FLOATS
        if isinstance(node, exp.Column):
            column = of_node(self.block.sources, node)
            return column is not None and column.type in _FLOATS
        return any(self._is_float(part) for part in node.iter_expressions())

    def _total(
        self,
        given: Sequence[exp.Expr],
        order: Sequence[exp.Expr],
        shown: Sequence[exp.Expr] | None,
        rows: bool = False,
    ) -> bool:
        """Whether rows that agree in ``given`` and in the order are one row, or show the same.

        ``rows`` are those of FROM, else those of the block's result.
        """
        by = [item.this if isinstance(item, exp.Ordered) else item for item in order]
        by = [*by, *(part.this for part in by if isinstance(part, exp.Collate))]
        known = [*given, *by]
        if shown is not None and all(
            _shows_order(node, known) and self._has_one_text(node) for node in shown
        ):
            return True
        proof = KeyProof(self.statement)
        settled = Settled(proof, self.block, known)
        group = self.block.group
        if not rows and group is not None and all(settled.has(part) for part in group):
            return True
        return settled.all_sources() and not proof.assumes


def _shows_order(node: exp.Expr, known: Sequence[exp.Expr]) -> bool:
    parts = node.expressions if functions.name(node) in _LISTS else [node]
    return all(of_rows(part) and built_of(part, known) for part in parts)


def _parts_of_text(node: exp.Expr) -> Iterator[exp.Column | exp.Collate]:
    """The columns whose text its value may be, and the collations that are written for it: not what
    it is only chosen or counted by."""
    if isinstance(node, exp.Column | exp.Collate):
        yield node
    if isinstance(node, _NO_TEXT) or functions.name(node) in _LENGTHS:
        return
    if isinstance(node, exp.Cast) and not _is_text(node.to.sql("postgres").lower(), _PADDED):
        return
    parts = list(node.iter_expressions())
    if isinstance(node, exp.Case):
        results = [one.args["true"] for one in node.args["ifs"]]
        parts = [one for one in (*results, node.args.get("default")) if one is not None]
    for part in parts:
        yield from _parts_of_text(part)


def _is_text(type_: str, more: AbstractSet[str] = frozenset()) -> bool:
    return type_.partition("(")[0] in _TEXTS | more


def _called(node: exp.Window) -> exp.Expr:
    inner: exp.Expr = node.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return inner


def _in_window(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.Filter):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def _with_ties(block: Block) -> bool:
    return any(
        isinstance(part, exp.Fetch)
        and part.args.get("limit_options") is not None
        and part.args["limit_options"].args.get("with_ties")
        for part in block.limit
    )
