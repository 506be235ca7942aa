"""A view's key, proven: no two rows share it. Pure.

A key is one if it settles every source of FROM, or every expression of GROUP BY, or all that
DISTINCT compares; see ``settled``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from views.maintain.proofs.settled_columns import Settled
from views.maintain.tree import functions
from views.maintain.tree.correlated_sources import own_expressions
from views.maintain.tree.tree import (
    Block,
    Query,
    Recursion,
    SetOperation,
    Statement,
)


@dataclass(slots=True)
class KeyProof:
    """Proves keys within one statement. ``assumes`` is what a proof takes for granted of the data;
    ``missing`` what rows are still told apart by, of the last that failed."""

    statement: Statement
    assumes: list[str] = field(default_factory=list)
    missing: str = ""
    recursion: list[tuple[str, frozenset[int]]] = field(default_factory=list)

    def unique(self, query: Query, positions: Iterable[int]) -> bool:
        """Whether no two rows of a query agree in the columns at these positions."""
        wanted = frozenset(positions)
        if isinstance(query, SetOperation):
            return self._set_operation(query, wanted)
        if isinstance(query, Recursion):
            return self._recursive(query, wanted)
        return self._block(query, wanted)

    def _set_operation(self, query: SetOperation, wanted: frozenset[int]) -> bool:
        if not query.all and wanted == frozenset(range(len(query.columns))):
            return True
        left = self.unique(query.left, wanted)
        if query.kind == "except":
            return left
        if query.kind == "intersect":
            return left or self.unique(query.right, wanted)
        return left and self.unique(query.right, wanted) and self._apart(query, wanted)

    def _apart(self, query: SetOperation, wanted: frozenset[int]) -> bool:
        """Whether a literal among the columns is another one in each side of a UNION."""
        for position in wanted:
            left, right = _literals(query.left, position), _literals(query.right, position)
            if left and right and not left & right:
                return True
        self.missing = "which side of UNION a row is of: select a literal, 'a' AS side"
        return False

    def _recursive(self, query: Recursion, wanted: frozenset[int]) -> bool:
        if not query.all and wanted == frozenset(range(len(query.columns))):
            return True
        if not isinstance(query.step, Block) or not self.unique(query.anchor, wanted):
            return False
        read = _read_of_itself(query.step, query.name)
        names = {query.columns[position] for position in wanted}
        if not read <= names:  # else a row that comes again would come without an end
            return False
        self.recursion.append((query.name, wanted))
        found = self._block(query.step, wanted)
        self.recursion.pop()
        return found

    def _block(self, block: Block, wanted: frozenset[int]) -> bool:
        if block.limit and any(_is_one(node) for node in block.limit):
            return True
        nodes = [block.outputs[position].node for position in sorted(wanted)]
        if block.group == [] and block.sets is None:
            return True
        settled = Settled(self, block, nodes)
        if block.distinct_on and all(settled.has(part) for part in block.distinct_on):
            return True
        if block.distinct and all(settled.has(output.node) for output in block.outputs):
            return True
        if any(settled.has(part) for part in _numbers_of(nodes, settled)):
            return True
        if block.group is not None:
            return self._group(block, nodes, settled)
        return settled.all_sources()

    def _group(self, block: Block, nodes: Sequence[exp.Expr], settled: Settled) -> bool:
        assert block.group is not None
        missing = [part for part in block.group if not settled.has(part)]
        if missing:
            self.missing = f"GROUP BY also has {missing[0].sql('postgres')}"
            return False
        if block.sets is None:
            return True
        grouped = {
            part.sql()
            for node in nodes
            for call in node.walk()
            if functions.name(call) == "grouping"
            for part in call.expressions
        }
        if {part.sql() for part in block.group} <= grouped:
            return True
        self.missing = "which grouping set a row is of: select grouping(…) of all columns"
        return False


def _is_one(node: exp.Expr) -> bool:
    if isinstance(node, exp.Fetch):
        options = node.args.get("limit_options")
        ties = options is not None and options.args.get("with_ties")
        count = node.args.get("count")
        return not ties and (count is None or count.name == "1")
    return isinstance(node, exp.Limit) and node.expression.name == "1"


def _numbers_of(nodes: Sequence[exp.Expr], settled: Settled) -> list[exp.Expr]:
    """row_number() among the expressions, where its partition is settled too."""
    return [
        node
        for node in nodes
        if isinstance(node, exp.Window)
        and functions.name(node.this) == "row_number"
        and all(settled.has(part) for part in node.args.get("partition_by") or [])
    ]


def _literals(query: Query, position: int) -> set[str]:
    """The literals that a column is in all rows, if it is no more than that."""
    if isinstance(query, SetOperation) and query.kind == "union":
        left, right = _literals(query.left, position), _literals(query.right, position)
        return left | right if left and right else set()
    if isinstance(query, Block):
        node = query.outputs[position].node
        node = node.this if isinstance(node, exp.Cast) else node
        return {node.sql()} if isinstance(node, exp.Literal | exp.Neg | exp.Boolean) else set()
    return set()


def _read_of_itself(block: Block, name: str) -> set[str]:
    own = {source.alias for source in block.sources.values() if source.recursion == name}
    return {
        part.name
        for node in own_expressions(block)
        for part in node.find_all(exp.Column)
        if part.table in own
    }
