"""Parts of a view's SQL, translated: what Spark is to evaluate, and what PostgreSQL. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from views.parse.expression_parts import columns, in_postgres, is_aggregate, plain, shape
from views.spark.expressions.operators import condition
from views.spark.expressions.terms import ColumnRef, Scope, Term, qualified, settled
from views.spark.expressions.translation import compile_node
from views.spark.nested_rows import structure
from views.table_versions import TableVersion
from views.types import PgType


class Clause(NamedTuple):
    """An expression over rows of the joined tables, or over groups of them.

    ``node`` has qualified columns; ``sql`` is Spark's, ``postgres`` PostgreSQL's own.
    """

    node: exp.Expr
    sql: str
    postgres: str
    type: PgType
    reads: frozenset[ColumnRef]

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(column.alias for column in self.reads)

    @property
    def column(self) -> ColumnRef | None:
        """The column that the expression is, if it is nothing more."""
        return plain(self.node)

    @property
    def shape(self) -> str:
        return shape(self.node)


def row_scope(view: str, tables: Mapping[str, TableVersion]) -> Scope:
    """Names for expressions over single rows."""
    return Scope(view, tables, compile_row, qualified)


def compile_row(node: exp.Expr, scope: Scope) -> Term:
    """An expression over single rows: as in a view of one table, and nested objects."""
    if is_aggregate(node) or isinstance(node, exp.Filter):
        scope.refuse(node, "an aggregate has no place here", "use HAVING for conditions on groups")
    return structure(node, scope) or compile_node(node, scope)


def clause(node: exp.Expr, scope: Scope) -> Clause:
    """Translate an expression of any type."""
    return _clause(node, settled(scope.compile(node)))


def condition_clause(node: exp.Expr, scope: Scope) -> Clause:
    """Translate a condition."""
    return _clause(node, condition(node, scope))


def _clause(node: exp.Expr, term: Term) -> Clause:
    return Clause(node, term.sql, in_postgres(node), term.type, columns(node))
