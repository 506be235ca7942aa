"""A view's key, proven: no two rows share it. Pure.

What settles what: an equality settles one side by the other, a table's key its row, the columns
that tell the rows of a derived table apart its row. A key is one if it settles every source of FROM
(or every expression of GROUP BY, or all that DISTINCT compares).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from views.maintain import functions
from views.maintain.not_null import NotNull
from views.maintain.passing import of_rows
from views.maintain.paths import _certain
from views.maintain.tree import (
    Block,
    Joined,
    Leaf,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    Tree,
    aliases,
    reads,
)

Column = tuple[str, str]


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
        return settled.all_sources(self)

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


@dataclass(slots=True)
class Settled:
    """What is settled in a block if the values of some expressions are."""

    proof: KeyProof
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

    def all_sources(self, proof: KeyProof) -> bool:
        """Whether each source has one row at most."""
        for alias, source in self.block.sources.items():
            if alias not in self.gone and not self._one_row(source):
                if self._assumed(proof, source):
                    continue
                proof.missing = _told_by(source)
                return False
        return True

    def _assumed(self, proof: KeyProof, source: Source) -> bool:
        """A row that LEFT JOIN looks up by something that is not its key: said, and looked at when
        rows are made."""
        join = _looked_up_by(self.block.tree, source.alias)
        if join is None or source.table is None:
            return False
        others = {alias for node in join.on for alias in reads(node)} - {source.alias}
        if not others or not all(self._one_row(self.block.sources[alias]) for alias in others):
            return False
        on = " AND ".join(node.sql("postgres") for node in join.on).replace('"', "")
        proof.assumes.append(
            f"at most one row of {source.table.table} {source.alias} matches ON {on}"
        )
        return True

    def _inverted(self, node: exp.Expr) -> None:
        """``coalesce(x, literal)`` tells as much as x if x is never that literal; of the two sides
        of FULL JOIN ... ON a.k = b.k it is both."""
        if functions.name(node) != "coalesce" or len(node.expressions) != 2:
            return
        first, second = node.expressions
        if not isinstance(first, exp.Column) or first.table not in self.block.sources:
            return
        here = (first.table, first.name)
        if isinstance(second, exp.Column) and _full_by(self.block.tree, first, second):
            self.columns |= {here, (second.table, second.name)}
        elif isinstance(second, exp.Literal | exp.Neg):
            source = self.block.sources[first.table]
            if self.block.sets is None and NotNull(self.proof.statement).of_source(
                source, first.name
            ):
                self.columns.add(here)  # a row that is there, or none: then the others tell
            elif self.block.group is not None and any(first == part for part in self.block.group):
                self.columns.add(here)
                self.proof.assumes.append(
                    f"{first.sql('postgres')} is never {second.sql('postgres')}".replace('"', "")
                )

    def _close(self) -> None:
        conditions = [*self.block.where, *_certain(self.block.tree)]
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
                join = _looked_up_by(self.block.tree, source.alias)
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
        return name not in functions.ROWS and not isinstance(call, exp.Unnest)


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


def _looked_up_by(tree: Tree | None, alias: str) -> Joined | None:
    """The LEFT JOIN that has a source alone at its right side."""
    if not isinstance(tree, Joined):
        return None
    if tree.kind == "left" and isinstance(tree.right, Leaf) and tree.right.alias == alias:
        return tree
    return _looked_up_by(tree.left, alias) or _looked_up_by(tree.right, alias)


def _full_by(tree: Tree | None, first: exp.Expr, second: exp.Expr) -> bool:
    if not isinstance(tree, Joined):
        return False
    if tree.kind == "full":
        return any(
            isinstance(node, exp.EQ) and {node.this, node.expression} == {first, second}
            for node in tree.on
        )
    return _full_by(tree.left, first, second) or _full_by(tree.right, first, second)


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
    from views.maintain.free import own_expressions

    own = {source.alias for source in block.sources.values() if source.recursion == name}
    return {
        part.name
        for node in own_expressions(block)
        for part in node.find_all(exp.Column)
        if part.table in own
    }


def _told_by(source: Source) -> str:
    if source.table is not None:
        columns = ", ".join(f"{source.alias}.{name}" for name in source.table.key)
        return f"several rows of {source.table.table} {source.alias}, told apart by {columns}"
    return f"several rows of {source.alias}"
