"""A declared view against one version of its table: names, types, key, Spark SQL. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.definition import ViewDefinition
from views.parse.depth import bounded
from views.spark.expressions.operators import condition
from views.spark.expressions.terms import Scope, identifier, settled, unqualified
from views.spark.expressions.translation import compile_node
from views.table_versions import REFUSED_HINT, TableVersion, treatment_fault
from views.types import PgType


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the view. ``source`` is the table's column when it is projected as it is."""

    name: str
    type: PgType
    sql: str
    source: str | None


@dataclass(frozen=True, slots=True)
class ResolvedView:
    """A view that can be run over rows of one table version.

    ``where`` is Spark SQL or None. ``computed_from`` names the columns that expressions or WHERE
    read: their values have to be there, an unchanged TOAST value cannot stand for them.
    """

    definition: ViewDefinition
    table: TableVersion
    outputs: tuple[Output, ...]
    where: str | None
    computed_from: frozenset[str]

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def key(self) -> tuple[str, ...]:
        return self.definition.key

    def reading(self, rows: Callable[[str, str], str]) -> str:
        """The view's SQL for PostgreSQL, reading ``rows(schema, table)`` for its table."""
        return self.definition.reading(rows)

    def ddl(self) -> str:
        """The view's columns as a Spark schema string."""
        return ddl(self.outputs)

    def describe(self) -> str:
        return describe(self.outputs)


def ddl(outputs: Sequence[Output]) -> str:
    """Columns as a Spark schema string."""
    return ", ".join(f"{identifier(output.name)} {output.type.spark}" for output in outputs)


def describe(outputs: Sequence[Output]) -> str:
    """Columns for messages."""
    return ", ".join(f"{output.name} {output.type}" for output in outputs)


@bounded
def resolve(definition: ViewDefinition, table: TableVersion) -> ResolvedView:
    """Check the view against the table. Raises ``ViewError`` with place and reason."""
    if table.refused:
        raise ViewError(table.refused, REFUSED_HINT)
    scope = _scope(definition, table)
    outputs = tuple(_outputs(definition, table, scope))
    check_names(definition.name, [output.name for output in outputs])
    clause = definition.statement.args.get("where")
    where = condition(clause.this, scope).sql if clause is not None else None
    computed_from = frozenset(read.column for read in scope.reads)
    for name in sorted(computed_from):
        refuse_treated(definition.name, table, name)
    view = ResolvedView(definition, table, outputs, where, computed_from)
    _check_key(view)
    return view


def refuse_treated(view: str, table: TableVersion, name: str) -> None:
    """Raise ``ViewError`` where a column that a view computes with is treated before it comes."""
    column = table.column(name)
    if column is not None and column.treatment:
        raise ViewError(
            f"views.{view}.sql: {name} of {table.name} cannot be computed with: "
            f"{treatment_fault(column.treatment)}",
            "select it as it is, or leave it out",
        )


def _scope(definition: ViewDefinition, table: TableVersion) -> Scope:
    return Scope(definition.name, {definition.alias: table}, compile_node, unqualified)


def _outputs(definition: ViewDefinition, table: TableVersion, scope: Scope) -> Iterator[Output]:
    for item in definition.statement.expressions:
        node = item.this if isinstance(item, exp.Alias) else item
        if _is_star(node):
            qualifier = node.args.get("table")
            if qualifier is not None and qualifier.name != definition.alias:
                scope.refuse(node, f"no table {qualifier.name!r} here")
            if isinstance(node, exp.Star) and any(node.args.values()):
                scope.refuse(node, "* takes no modifiers in PostgreSQL")
            for name in table.replaced:
                scope.refuse(node, f"{name!r}: {table.lacking(name)}")
            for column in table.columns:
                yield Output(column.name, column.type, identifier(column.name), column.name)
        elif isinstance(node, exp.Column):
            term = _scope(definition, table).compile(node)
            yield Output(item.alias_or_name, term.type, term.sql, node.name)
        elif isinstance(item, exp.Alias):
            term = settled(scope.compile(node))
            yield Output(item.alias, term.type, term.sql, None)
        else:
            scope.refuse(node, "an expression needs a name", "write … AS name")


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def check_names(view: str, names: Sequence[str]) -> None:
    """Names of columns are there once, and not among those that rows carry beside them."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ViewError(
                f"views.{view}.sql: two columns are called {name!r}", "rename one with AS"
            )
        if name.startswith("__"):
            raise ViewError(
                f"views.{view}.sql: the column name {name!r} is reserved", "rename it with AS"
            )
        seen.add(name)


def _check_key(view: ResolvedView) -> None:
    """A view of one table is keyed by the table's key, renamed or not, and by nothing else."""
    where, table = f"views.{view.name}.key", view.table
    if not table.key:
        raise ViewError(
            f"{where}: {table.name} has no key, so its rows cannot be identified",
            "give the table a primary key, or name one in source.keys",
        )
    by_name = {output.name: output for output in view.outputs}
    for name in view.key:
        if name not in by_name:
            raise ViewError(
                f"{where}: {name!r} is not a column of the view", f"choose from {view.describe()}"
            )
    sources = [by_name[name].source for name in view.key]
    if sorted(source or "" for source in sources) != sorted(table.key):
        raise ViewError(
            f"{where}: ({', '.join(view.key)}) is not unique in the view: the key of "
            f"{table.name} is ({', '.join(table.key)})",
            "select these columns as they are and name them in key",
        )
