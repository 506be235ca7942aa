"""min and max of a group that an index of its table finds: the first value in their order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from views.maintain.groups.values import GROUP, Extreme, NotKeptError
from views.maintain.indexes import Index
from views.maintain.tree.origin import of_node
from views.maintain.tree.render import Writer, quoted, where
from views.maintain.tree.tree import Block, Statement


@dataclass(slots=True)
class LookedUp:
    """Values of groups of one table, by columns of the view's key: ``named`` are the expressions
    that are grouped by, and what they are called in a row of kept sums."""

    statement: Statement
    read: Mapping[str, Sequence[str]]
    named: Sequence[tuple[str, exp.Expr]]

    def extremes(
        self, block: Block, wanted: Sequence[Extreme]
    ) -> tuple[list[tuple[str, str]], tuple[Index, ...]]:
        """Each as SQL over a row of sums, and the indexes that they need. Raises ``NotKeptError``
        where no index finds one."""
        (source,) = block.sources.values()
        found: list[tuple[str, str]] = []
        indexes: list[Index] = []
        for one in wanted:
            columns = [node for _, node in self.named if isinstance(node, exp.Column)]
            held = of_node(block.sources, one.column)
            if len(columns) < len(self.named) or held is None or not held.equal_image:
                raise NotKeptError(f"{one.function} that no index finds")
            assert source.table is not None
            found.append((one.name, self._first(block, one)))
            names = [*(node.name for node in columns), one.column.name]
            indexes.append(Index(source.table.table, tuple(dict.fromkeys(names))))
        return found, tuple(indexes)

    def _first(self, block: Block, one: Extreme) -> str:
        writer = Writer(self.statement, self.read)
        conditions = [writer.node(node) for node in block.where]
        if one.condition is not None:
            conditions.append(writer.node(one.condition))
        value = writer.node(one.column)
        conditions.append(f"{value} IS NOT NULL")
        conditions += [
            f"{writer.node(node)} = {quoted(GROUP)}.{quoted(name)}" for name, node in self.named
        ]
        order = " DESC" if one.function == "max" else ""
        (source,) = block.sources.values()
        items = writer.source(source)
        return f"(SELECT {value} FROM {items} {where(conditions)} ORDER BY {value}{order} LIMIT 1)"
