"""What is settled in the rows of a block if some expressions are. Pure.

An equality settles one side by the other; the key of a table settles its row, the columns that
tell the rows of a derived table apart its row; a row that LEFT JOIN looks up by its key is settled,
or missing, by what ON compares it with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from views.function_names import ROWS
from views.maintain.proofs.not_null import NotNull
from views.maintain.proofs.outer_joins import is_full_join_by, is_in_full_join, lookup_join
from views.maintain.touched.paths import certain
from views.maintain.touched.pushdown_columns import of_rows
from views.maintain.tree import functions
from views.maintain.tree.origin import of_node
from views.maintain.tree.tree import Block, Joined, Query, Source, Statement, Tree, aliases, reads

Column = tuple[str, str]


class Proof(Protocol):
    """What proves the keys of derived tables."""

    statement: Statement
    assumes: list[str]
    missing: str
    recursion: list[tuple[str, frozenset[int]]]

    def unique(self, query: Query, positions: Iterable[int]) -> bool:
        """Whether no two rows of a query agree in the columns at these positions."""


@dataclass(slots=True)
class Settled:
    """What is settled in a block if the values of some expressions are."""

    proof: Proof
    block: Block
    nodes: Sequence[exp.Expr]
    columns: set[Column] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in self.nodes:
            if isinstance(node, exp.Column):
                self.columns.add((node.table, node.name))
            self._inverted(node)
        self._close()

    def has(self, node: exp.Expr) -> bool:
        """Whether an expression has one value."""
        if any(node == known for known in self.nodes):
            return True
        return of_rows(node) and self._known(node)

    def _known(self, node: exp.Expr) -> bool:
        return all(
            (part.table, part.name) in self.columns or part.table not in self.block.sources
            for part in node.find_all(exp.Column)
        )

    def all_sources(self) -> bool:
        """Whether each source has one row at most."""
        for alias, source in self.block.sources.items():
            if alias not in self.gone and not self._one_row(source):
                if self._assumed(source):
                    continue
                self.proof.missing = _told_by(source)
                return False
        return True

    def _assumed(self, source: Source) -> bool:
        """A row that LEFT JOIN looks up by something that is not its key: said, and looked at when
        rows are made."""
        join = lookup_join(self.block.tree, source.alias)
        if join is None or source.table is None:
            return False
        others = {alias for node in join.on for alias in reads(node)} - {source.alias}
        if not others or not all(self._one_row(self.block.sources[alias]) for alias in others):
            return False
        on = " AND ".join(node.sql("postgres") for node in join.on).replace('"', "")
        self.proof.assumes.append(
            f"at most one row of {source.table.table} {source.alias} matches ON {on}"
        )
        return True

    def _inverted(self, node: exp.Expr) -> None:
        """``coalesce(x, literal)`` tells as much as x if x is never that literal; of the two sides
        of FULL JOIN ... ON a.k = b.k it is both."""
        if isinstance(node, exp.Cast):
            self._cast(node)
        if functions.name(node) != "coalesce" or len(node.expressions) != 2:
            return
        first, second = node.expressions
        if not isinstance(first, exp.Column) or first.table not in self.block.sources:
            return
        here = (first.table, first.name)
        if isinstance(second, exp.Column) and is_full_join_by(self.block.tree, first, second):
            self.columns |= {here, (second.table, second.name)}
        elif isinstance(second, exp.Literal | exp.Neg):
            source = self.block.sources[first.table]
            if self.block.sets is None and NotNull(self.proof.statement).of_source(
                source, first.name
            ):
                self.columns.add(here)  # a row that is there, or none: then the others tell
                if is_in_full_join(
                    self.block.tree, first.table
                ):  # of which the others may be missing
                    self._assume_never(first, second)
            elif self.block.group is not None and any(first == part for part in self.block.group):
                self.columns.add(here)
                self._assume_never(first, second)

    def _assume_never(self, column: exp.Expr, value: exp.Expr) -> None:
        said = f"{column.sql('postgres')} is never {value.sql('postgres')}"
        self.proof.assumes.append(said.replace('"', ""))

    def _cast(self, node: exp.Cast) -> None:
        """``id::text`` tells as much as id, where each value has texts of its own."""
        column = of_node(self.block.sources, node.this)
        to = node.to.sql("postgres").lower()
        if column is None or to not in ("text", "varchar"):
            return
        if column.told_by_text:
            self.columns.add((node.this.table, node.this.name))

    def _close(self) -> None:
        conditions = [*self.block.where, *certain(self.block.tree)]
        self._missing(conditions)
        while True:
            before = len(self.columns)
            self._equalities(conditions)
            for alias, source in self.block.sources.items():
                if alias in self.gone or self._one_row(source):
                    self.columns |= {(alias, name) for name in source.columns}
            self._left_joins(self.block.tree)
            if len(self.columns) == before:
                return

    def _missing(self, conditions: Iterable[exp.Expr]) -> None:
        """``x IS NULL`` of a column that has a value wherever its row is there: it is not there."""
        for node in conditions:
            if isinstance(node, exp.Is) and _is_null(node):
                column = node.this
                source = self.block.sources.get(column.table) if _plain(column) else None
                if source is None or not NotNull(self.proof.statement).of_source(
                    source, column.name
                ):
                    continue
                join = lookup_join(self.block.tree, source.alias)
                if join is not None:
                    self.gone |= set(aliases(join.right))

    def _equalities(self, conditions: Iterable[exp.Expr]) -> None:
        for node in conditions:
            if not isinstance(node, exp.EQ | exp.NullSafeEQ):
                continue
            for one, other in ((node.this, node.expression), (node.expression, node.this)):
                if _plain(one) and of_rows(other) and self._known(other):
                    self.columns.add((one.table, one.name))

    def _left_joins(self, tree: Tree | None) -> None:
        if not isinstance(tree, Joined):
            return
        self._left_joins(tree.left)
        self._left_joins(tree.right)
        if tree.kind != "left":
            return
        inside = set(aliases(tree.right))
        outside = {
            (part.table, part.name)
            for node in tree.on
            for part in node.find_all(exp.Column)
            if part.table not in inside and part.table in self.block.sources
        }
        if outside <= self.columns:
            sources = {alias: self.block.sources[alias] for alias in inside}
            inner = Block(sources, tree.right, list(tree.on), [])
            seen = Settled.within(self, inner)
            if all(seen._one_row(source) for source in sources.values()):
                self.columns |= {(a, name) for a in inside for name in sources[a].columns}
                self.gone |= inside

    @staticmethod
    def within(outer: Settled, inner: Block) -> Settled:
        """The same for a part of FROM, in rows where it is there."""
        made = Settled(outer.proof, inner, [])
        made.columns |= outer.columns
        made.columns |= {
            (part.table, part.name)
            for node in outer.nodes
            for part in _sure_of(node)
            if part.table in inner.sources
        }
        made._close()
        return made

    def _one_row(self, source: Source) -> bool:
        known = {name for alias, name in self.columns if alias == source.alias}
        if source.alias in self.gone:
            return True
        if source.table is not None:
            return bool(source.table.key) and set(source.table.key) <= known
        if source.recursion:
            return any(
                name == source.recursion
                and {source.columns[position] for position in wanted} <= known
                for name, wanted in self.proof.recursion
            )
        if source.query is not None:
            positions = [at for at, name in enumerate(source.columns) if name in known]
            return self.proof.unique(source.query, positions)
        return self._call(source, known)

    def _call(self, source: Source, known: set[str]) -> bool:
        call = source.call
        assert call is not None
        if isinstance(call, exp.Values):
            return len(call.expressions) == 1 or any(
                name in known and _different(call, place)
                for place, name in enumerate(source.columns)
            )
        if not self._known(call):
            return False
        name = functions.name(call)
        if source.ordinality and source.ordinality in known:
            return True
        if name in ("generate_series", "generate_subscripts", "jsonb_object_keys"):
            return source.columns[0] in known
        if name in ("jsonb_each", "jsonb_each_text"):
            return source.columns[0] in known
        return name not in ROWS and not isinstance(call, exp.Unnest)


def _is_null(node: exp.Is) -> bool:
    return isinstance(node.expression, exp.Null) and not node.args.get("negate")


def _sure_of(node: exp.Expr) -> list[exp.Column]:
    if functions.name(node) == "coalesce" and isinstance(node.expressions[0], exp.Column):
        return [node.expressions[0]]
    return []


def _plain(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def _different(call: exp.Values, place: int) -> bool:
    values = [row.expressions[place] for row in call.expressions]
    literal = all(isinstance(value, exp.Literal | exp.Neg) for value in values)
    return literal and len({value.sql() for value in values}) == len(values)


def _told_by(source: Source) -> str:
    if source.table is not None:
        columns = ", ".join(f"{source.alias}.{name}" for name in source.table.key)
        return f"several rows of {source.table.table} {source.alias}, which {columns} distinguishes"
    return f"several rows of {source.alias}"
