"""A declared view against one version of its table: names, types, key, Spark SQL. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from cdc.errors import ViewError
from views.definition import ViewDefinition
from views.operators import condition
from views.tables import TableVersion
from views.terms import Scope, Term
from views.translate import compile_node
from views.types import TEXT, UNKNOWN, PgType


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

    def ddl(self) -> str:
        """The view's columns as a Spark schema string."""
        return ", ".join(f"{_quote(output.name)} {output.type.spark}" for output in self.outputs)

    def describe(self) -> str:
        return ", ".join(f"{output.name} {output.type}" for output in self.outputs)


def resolve(definition: ViewDefinition, table: TableVersion) -> ResolvedView:
    """Check the view against the table. Raises ``ViewError`` with place and reason."""
    scope = Scope(definition.name, table, definition.alias, compile_node)
    outputs = tuple(_outputs(definition, scope))
    _check_names(definition, outputs)
    clause = definition.statement.args.get("where")
    where = condition(clause.this, scope).sql if clause is not None else None
    view = ResolvedView(definition, table, outputs, where, frozenset(scope.reads))
    _check_key(view)
    return view


def _outputs(definition: ViewDefinition, scope: Scope) -> Iterator[Output]:
    for item in definition.statement.expressions:
        node = item.this if isinstance(item, exp.Alias) else item
        if _is_star(node):
            qualifier = node.args.get("table")
            if qualifier is not None and qualifier.name != definition.alias:
                scope.refuse(node, f"no table {qualifier.name!r} here")
            if isinstance(node, exp.Star) and any(node.args.values()):
                scope.refuse(node, "* takes no modifiers in PostgreSQL")
            for column in scope.table.columns:
                yield Output(column.name, column.type, _quote(column.name), column.name)
        elif isinstance(node, exp.Column):
            plain = Scope(scope.view, scope.table, scope.alias, compile_node)
            term = plain.compile(node)
            yield Output(item.alias_or_name, term.type, term.sql, node.name)
        elif isinstance(item, exp.Alias):
            term = _settled(scope.compile(node))
            yield Output(item.alias, term.type, term.sql, None)
        else:
            scope.refuse(node, "an expression needs a name", "write … AS name")


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _settled(term: Term) -> Term:
    """A literal that nothing gave a type is text."""
    if term.type != UNKNOWN:
        return term
    return Term(f"CAST({term.sql} AS string)", TEXT)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_names(definition: ViewDefinition, outputs: tuple[Output, ...]) -> None:
    seen: set[str] = set()
    for output in outputs:
        if output.name in seen:
            raise ViewError(
                f"views.{definition.name}.sql: two columns are called {output.name!r}",
                "rename one with AS",
            )
        if output.name.startswith("__"):
            raise ViewError(
                f"views.{definition.name}.sql: the column name {output.name!r} is reserved",
                "rename it with AS",
            )
        seen.add(output.name)


def _check_key(view: ResolvedView) -> None:
    """A view of one table is keyed by the table's key, renamed or not, and by nothing else."""
    where, table = f"views.{view.name}.key", view.table
    if not table.key:
        raise ViewError(
            f"{where}: {table.name} has no key, so its rows cannot be told apart",
            "give the table a primary key, or name one in source.keys",
        )
    by_name = {output.name: output for output in view.outputs}
    for name in view.key:
        if name not in by_name:
            raise ViewError(
                f"{where}: {name!r} is not a column of the view", f"it has {view.describe()}"
            )
    sources = [by_name[name].source for name in view.key]
    if sorted(source or "" for source in sources) != sorted(table.key):
        raise ViewError(
            f"{where}: ({', '.join(view.key)}) is not unique in the view: the rows of {table.name} "
            f"are told apart by ({', '.join(table.key)})",
            "select these columns as they are and name them in key",
        )
