"""Which expressions have a value in every row. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from views.function_names import words
from views.maintain.touched.paths import certain
from views.maintain.tree import functions
from views.maintain.tree.from_clause import outer_sides
from views.maintain.tree.parser import text
from views.maintain.tree.tree import (
    Block,
    Joined,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    Tree,
    aliases,
    reads,
)

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.In,
             exp.Between, exp.RegexpLike, exp.RegexpILike)  # fmt: skip
_STRICT_OPERATORS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe, exp.Neg, exp.Paren,
                     exp.Cast, exp.Extract, exp.Trim, exp.Substring, exp.AtTimeZone, exp.Not,
                     exp.Collate, exp.Pow, *_COMPARED)  # fmt: skip
_STRICT = words(
    """
    abs ascii btrim ceil ceiling char_length character_length chr date date_bin date_part
    date_trunc div exp floor initcap left length lower lpad ltrim md5 mod octet_length power repeat
    replace reverse right round rpad rtrim sign split_part sqrt strpos substr timezone to_char
    to_date to_hex to_timestamp translate trunc upper
    """
)
_ALWAYS = words(
    "count grouping row_number rank dense_rank percent_rank cume_dist ntile concat "
    "current_date current_timestamp now"
)
_OF_VALUES = words(
    "sum min max avg bool_and bool_or every array_agg json_agg jsonb_agg string_agg mode bit_and "
    "bit_or any_value"
)
_VALUES = words(
    "generate_series generate_subscripts json_object_keys jsonb_object_keys "
    "regexp_split_to_table jsonb_array_elements json_array_elements"
)


@dataclass(frozen=True, slots=True)
class NotNull:
    """Proves that expressions have a value, within one statement."""

    statement: Statement
    assumes: list[str] = field(default_factory=list)

    def column(self, query: Query, position: int) -> bool:
        """Whether a column of a query has a value in every row of it."""
        if isinstance(query, SetOperation):
            left = self.column(query.left, position)
            if query.kind == "except":
                return left
            right = self.column(query.right, position)
            return left or right if query.kind == "intersect" else left and right
        if isinstance(query, Recursion):
            return self.column(query.anchor, position) and self.column(query.step, position)
        return self.node(query, query.outputs[position].node)

    def node(self, block: Block, node: exp.Expr) -> bool:
        """Whether an expression over a block has a value in every row of its result."""
        rejected = list(_rejected(block))
        return self._has_value(block, node, rejected)

    def _has_value(self, block: Block, node: exp.Expr, rejected: list[exp.Expr]) -> bool:
        if isinstance(node, exp.Literal | exp.Boolean | exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
            return True
        if isinstance(node, exp.Exists | exp.Array | exp.Interval):
            return True
        if block.sets is None and any(node == part for part in rejected):
            return True
        if isinstance(node, exp.Column):
            return block.sets is None and self._column(block, node, rejected)
        if isinstance(node, exp.JSONExtractScalar):
            return self._member(block, node)
        if isinstance(node, exp.Case):
            return self._case(block, node, rejected)
        if isinstance(node, exp.Window | exp.WithinGroup):
            return self._has_value(block, node.this, rejected)
        if isinstance(node, _STRICT_OPERATORS):
            return all(self._has_value(block, part, rejected) for part in _operands(node))
        return self._function(block, node, rejected)

    def _case(self, block: Block, node: exp.Case, rejected: list[exp.Expr]) -> bool:
        default = node.args.get("default")
        results = [branch.args["true"] for branch in node.args["ifs"]]
        return default is not None and all(
            self._has_value(block, part, rejected) for part in (default, *results)
        )

    def _member(self, block: Block, node: exp.JSONExtractScalar) -> bool:
        """``x ->> 'k'`` where ``x ? 'k'`` holds: it has a value unless that is null in the JSON."""
        for part in block.where:
            asked = isinstance(part, exp.JSONBContainsTopKey) and part.this == node.this
            if asked and part.expression == node.expression:
                said = text(node).replace('"', "")
                self.assumes.append(f"{said} is never null in the JSON")
                return True
        return False

    def _function(self, block: Block, node: exp.Expr, rejected: list[exp.Expr]) -> bool:
        name = functions.name(node)
        parts = list(node.expressions) if isinstance(node, exp.Anonymous) else []
        if name in _ALWAYS:
            return True
        if name in ("coalesce", "greatest", "least"):
            return any(
                self._has_value(block, part, rejected) for part in parts
            ) or self._either_side(block, parts)
        if name in _STRICT:
            return all(self._has_value(block, part, rejected) for part in parts)
        if name in _OF_VALUES and block.group and parts:
            inner = parts[0].this if isinstance(parts[0], exp.Order) else parts[0]
            return self._has_value(block, inner, rejected)
        return False

    def _column(self, block: Block, node: exp.Column, rejected: list[exp.Expr]) -> bool:
        source = block.sources.get(node.table)
        if source is None:
            return False
        there = {alias for part in rejected for alias in reads(part)}
        if source.alias in outer_sides(block.tree) and source.alias not in there:
            return False
        return self.of_source(source, node.name)

    def _either_side(self, block: Block, parts: list[exp.Expr]) -> bool:
        """Whether columns of both sides of FULL JOIN are among them: one side is there."""
        there = {
            part.table
            for part in parts
            if isinstance(part, exp.Column)
            and part.table in block.sources
            and self.of_source(block.sources[part.table], part.name)
        }
        return any(
            join.kind == "full" and there & _always(join.left) and there & _always(join.right)
            for join in top_joins(block.tree)
        )

    def of_source(self, source: Source, name: str) -> bool:
        """Whether a column of a source has a value wherever the source has a row."""
        if source.table is not None:
            return source.table.not_null(name)
        if source.query is not None:
            return self.column(source.query, source.columns.index(name))
        if source.recursion:
            return True  # as its anchor and its step are proven with it
        return _of_call(source, name)


def _always(tree: Tree) -> set[str]:
    """The sources that each row of a tree has."""
    return set(aliases(tree)) - outer_sides(tree)


def top_joins(tree: Tree | None) -> Iterator[Joined]:
    """The joins of which each row of FROM has a row."""
    if isinstance(tree, Joined):
        yield tree
        if tree.kind in ("inner", "left"):
            yield from top_joins(tree.left)
        if tree.kind == "inner":
            yield from top_joins(tree.right)


def _of_call(source: Source, name: str) -> bool:
    if name == source.ordinality:
        return True
    if isinstance(source.call, exp.Values):
        place = source.columns.index(name)
        rows = [part.expressions for part in source.call.expressions]
        return all(isinstance(row[place], exp.Literal | exp.Neg | exp.Boolean) for row in rows)
    called = functions.name(source.call) if source.call is not None else ""
    if called in ("jsonb_each", "json_each", "jsonb_each_text", "json_each_text"):
        return name == source.columns[0]
    return called in _VALUES


def _operands(node: exp.Expr) -> list[exp.Expr]:
    kept = []
    for part in node.iter_expressions():
        if not isinstance(part, exp.DataType | exp.Var | exp.Identifier):
            kept.append(part)
    return kept


def _rejected(block: Block) -> Iterator[exp.Expr]:
    """Expressions of which NULL is let through by no condition."""
    for node in [*block.where, *certain(block.tree)]:
        yield from _rejected_by(node)


def _rejected_by(node: exp.Expr) -> Iterator[exp.Expr]:
    negated = isinstance(node, exp.Not)
    inner = node.this.unnest() if isinstance(node, exp.Not) else node
    if isinstance(inner, exp.Is):
        if isinstance(inner.expression, exp.Null) and negated != bool(inner.args.get("negate")):
            yield inner.this
    elif isinstance(inner, exp.Column):
        yield inner
    elif isinstance(inner, _COMPARED) and not _true_of_nothing(inner, negated):
        yield from _strict_parts(inner)
    elif isinstance(inner, exp.JSONBContainsTopKey):
        yield inner.this


def _true_of_nothing(node: exp.Expr, negated: bool) -> bool:
    """Whether it holds also for NULL, if a subquery has no rows."""
    if isinstance(node.args.get("expression"), exp.All):
        return True
    denied = negated or bool(node.args.get("negate"))
    return denied and (node.args.get("query") is not None or node.find(exp.Any) is not None)


def _strict_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What a comparison compares, and the columns in it that strict operators lead to."""
    for part in _operands(node):
        if isinstance(part, exp.Tuple):
            yield from part.expressions
        elif isinstance(part, exp.Select | exp.Subquery | exp.Any | exp.All):
            continue
        else:
            yield part
            if isinstance(part, _STRICT_OPERATORS) or functions.name(part) in _STRICT:
                yield from _strict_parts(part)
