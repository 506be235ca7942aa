"""GROUP BY: what stands for a group as a whole, and what has to be aggregated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from views.parse.expression_parts import POSTGRES, in_postgres, is_aggregate, plain, shape
from views.spark.clauses import Clause, clause, row_scope
from views.spark.expressions.aggregates import aggregate, or_empty
from views.spark.expressions.casts import way_to_text
from views.spark.expressions.operators import EQUAL, condition
from views.spark.expressions.terms import ColumnRef, Scope, Term, family, qualified, readable
from views.spark.expressions.translation import compile_node
from views.spark.nested_rows import Sort, structure
from views.table_versions import TableVersion
from views.types import PgType


def grouped_by(items: Iterable[exp.Expr], scope: Scope) -> tuple[Clause, ...]:
    """What a view is grouped by; refuses values that the systems tell apart differently."""
    found: dict[str, Clause] = {}
    for item in items:
        made = clause(item, scope)
        if not made.reads:
            scope.refuse(item, "a constant groups nothing", "leave it out of GROUP BY")
        if made.type.name != "bpchar":
            readable(Term(made.sql, made.type), item, scope)
            if family(made.type) not in EQUAL:
                reason = f"{made.type} values are not grouped here"
                scope.refuse(item, reason, way_to_text(made.type))
        found.setdefault(made.shape, made)
    return tuple(found.values())


class Grouping:
    """Compiles what is said of a group.

    ``ties`` tell the rows inside of a group apart. ``carried`` are columns that the group settles
    without naming them, as far as they were met.
    """

    def __init__(
        self,
        view: str,
        tables: Mapping[str, TableVersion],
        group: Sequence[Clause],
        ties: Sequence[Sort],
    ) -> None:
        self._tables, self._ties = tables, ties
        self._group = {item.shape: item for item in group}
        self._rows = row_scope(view, tables)
        named = {item.column for item in group}
        self._settled = {
            alias
            for alias, table in tables.items()
            if table.key and all(ColumnRef(alias, column) in named for column in table.key)
        }
        self.carried: dict[ColumnRef, str] = {}
        self.scope = Scope(view, tables, self.compile, qualified)

    def compile(self, node: exp.Expr, scope: Scope) -> Term:
        """Translate an expression over a group."""
        if (item := self._group.get(shape(node))) is not None:
            return Term(item.sql, item.type)
        if isinstance(node, exp.Filter):
            where = condition(node.expression.this, self._rows).sql
            return aggregate(node.this, where, self._rows, self._ties)
        if is_aggregate(node):
            return aggregate(node, "", self._rows, self._ties)
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        if isinstance(node, exp.Coalesce) and (listed := or_empty(node)) is not None:
            return self._or_empty(node, listed, scope)
        return structure(node, scope) or compile_node(node, scope)

    def _or_empty(self, node: exp.Coalesce, listed: exp.Expr, scope: Scope) -> Term:
        term = scope.compile(listed)
        empty = "'[]'::json" if term.type.element == "struct" else "'{}'"
        node.meta[POSTGRES] = f"coalesce({in_postgres(listed)}, {empty})"
        return Term(f"coalesce({term.sql}, CAST(array() AS {term.type.spark}))", term.type)

    def _column(self, node: exp.Column, scope: Scope) -> Term:
        """A column that is not grouped by, but whose table's key is: as in PostgreSQL."""
        term = compile_node(node, scope)
        column = plain(node)
        assert column is not None
        if column.alias not in self._settled:
            name = f"{column.alias}.{column.column}"
            hint = f"add {name} to GROUP BY, or make one value of them: min({name})"
            scope.refuse(node, "has many values in a group", hint)
        self.carried[column] = term.sql
        # Compiled more than once, where CASE and its kin ask for types first.
        name = in_postgres(exp.column(column.column, column.alias, quoted=True))
        node.meta[POSTGRES] = _any_of(name, term.type)
        return term


def _any_of(value: str, kind: PgType) -> str:
    """A value that all rows of a group have, of whichever type, as PostgreSQL takes it from one.

    Arrays are put together to one of two dimensions, which takes no NULL and no empty ones.
    """
    if kind.name != "array":
        return f"(array_agg({value}))[1]"
    first = f"(array_agg({value}) FILTER (WHERE cardinality({value}) > 0))[1:1]"
    return f"(CASE WHEN count({value}) > 0 THEN ARRAY(SELECT unnest({first})) END)"
