"""A view that is made from mirrors, against one version of each of its tables. Pure.

Its rows are made of several rows, or nest objects: ``views.spark.plan`` says which of its rows a
change touches and how they are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.definition import ViewDefinition
from views.parse.depth import bounded
from views.parse.expression_parts import aggregates, conjuncts
from views.parse.statement import refuse
from views.parse.uncaptured_tables import uncaptured
from views.spark.clauses import Clause, clause, condition_clause, row_scope
from views.spark.dialects import POSTGRES
from views.spark.expressions.terms import ColumnRef, Scope
from views.spark.keys.grouping import Grouping, grouped_by
from views.spark.keys.joins import joined, type_of
from views.spark.keys.key_closure import settled_by, untold
from views.spark.keys.key_proof import Body, proven_key
from views.spark.names import qualify
from views.spark.nested_rows import Sort, key_sort
from views.spark.resolution import (
    Output,
    ResolvedView,
    check_names,
    ddl,
    describe,
    refuse_treated,
    resolve,
)
from views.spark.select import selecting
from views.table_versions import REFUSED_HINT, TableVersion


@dataclass(frozen=True, slots=True)
class MaintainedView:
    """A view that can be run over mirrors of its tables, whole or for some of its keys.

    ``shown`` are the outputs' expressions, ``keys`` the key's over rows of the join, in the order
    of ``key``. ``carried`` are Spark's names of columns that GROUP BY settles without naming.
    """

    definition: ViewDefinition
    body: Body
    outputs: tuple[Output, ...]
    shown: tuple[Clause, ...]
    carried: tuple[str, ...]
    having: Clause | None
    keys: tuple[Clause, ...]

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def key(self) -> tuple[str, ...]:
        return self.definition.key

    @property
    def tables(self) -> Mapping[str, TableVersion]:
        """The occurrences by alias, in the order of FROM."""
        return self.body.tables

    def ddl(self) -> str:
        """The view's columns as a Spark schema string."""
        return ddl(self.outputs)

    def describe(self) -> str:
        return describe(self.outputs)

    def mirrored(self) -> dict[str, tuple[str, ...]]:
        """By ``schema.table``: the columns a mirror of it holds, its key first."""
        found: dict[str, dict[str, None]] = {}
        read = self._reads()
        for alias, table in self.tables.items():
            held = found.setdefault(table.name, dict.fromkeys(table.key))
            names = {column.column for column in read if column.alias == alias}
            held.update(dict.fromkeys(c.name for c in table.columns if c.name in names))
        return {name: tuple(held) for name, held in found.items()}

    def mirror_sql(self) -> dict[str, str]:
        """By ``schema.table``: the view of that table alone which is its mirror."""
        found = {}
        tables = {table.name: table for table in self.tables.values()}
        for name, columns in self.mirrored().items():
            table = tables[name]
            selected = exp.select(*(exp.column(column, quoted=True) for column in columns))
            selected = selected.from_(exp.table_(table.table, table.schema, quoted=True))
            found[name] = selected.sql("postgres")
        return found

    def _reads(self) -> set[ColumnRef]:
        parts = [*self.shown, *self.body.where, *(self.body.group or ())]
        parts += [part for join in self.body.joins for part in join.on]
        parts += [self.having] if self.having is not None else []
        return {column for part in parts for column in part.reads}

    def reading(self, rows: Callable[[str, str], str]) -> str:
        """The view's SQL for PostgreSQL, reading ``rows(schema, table)`` for each table.

        Arrays are ordered as in the view; an array of objects is JSON whose every value is the
        text PostgreSQL has for it, or null.
        """
        relations = {
            alias: f"({rows(table.schema, table.table)})" for alias, table in self.tables.items()
        }
        return selecting(self, POSTGRES, relations)


View: TypeAlias = ResolvedView | MaintainedView


def resolve_view(definition: ViewDefinition, tables: Mapping[str, TableVersion]) -> View:
    """Check a view of either kind against its tables, given by ``schema.table``."""
    if definition.maintained:
        return resolve_maintained(definition, tables)
    return resolve(definition, tables[definition.table_name])


@bounded
def resolve_maintained(
    definition: ViewDefinition, versions: Mapping[str, TableVersion]
) -> MaintainedView:
    """Check the view against its tables, given by ``schema.table``.

    Raises ``ViewError`` with place and reason.
    """
    tables = _tables(definition, versions)
    statement = qualify(definition, tables)
    scope = row_scope(definition.name, tables)
    joins = joined(statement, list(tables), scope)
    where = _conditions(statement.args.get("where"), scope)
    items = _items(definition.name, statement.expressions)
    plain = {name: node.copy() for name, node in items.items()}
    group = _group(definition, statement, scope)
    body = Body(tables, joins, where, group)
    grouping = None if group is None else _grouping(definition, body, statement)
    over = scope if grouping is None else grouping.scope
    shown = tuple(clause(node, over) for node in items.values())
    having = statement.args.get("having")
    kept = None if having is None else condition_clause(having.this, over)
    keys = proven_key(definition, plain, body)
    outputs = tuple(
        Output(name, made.type, made.sql, None) for name, made in zip(items, shown, strict=True)
    )
    _refuse_treated(definition.name, body, shown, kept, keys)
    carried = () if grouping is None else tuple(grouping.carried.values())
    return MaintainedView(definition, body, outputs, shown, carried, kept, keys)


def _refuse_treated(
    view: str,
    body: Body,
    shown: Iterable[Clause],
    having: Clause | None,
    keys: Iterable[Clause],
) -> None:
    """Raise ``ViewError`` where a treated column is more than an output as it is."""
    parts = [one for one in shown if one.column is None]
    parts += [*body.where, *(body.group or ()), *keys, *([having] if having else [])]
    parts += [part for join in body.joins for part in join.on]
    for column in sorted({column for part in parts for column in part.reads}):
        refuse_treated(view, body.tables[column.alias], column.column)


def _tables(
    definition: ViewDefinition, versions: Mapping[str, TableVersion]
) -> dict[str, TableVersion]:
    tables = {}
    for occurrence in definition.occurrences:
        table = versions.get(occurrence.table_name)
        if table is None:
            raise uncaptured(definition, occurrence.table_name, versions)
        if table.refused:
            raise ViewError(table.refused, REFUSED_HINT)
        if not table.key:
            reason = f"{table.name} has no key, so its rows cannot be identified"
            hint = "give the table a primary key, or name one in source.keys"
            refuse(definition.name, occurrence.node, reason, hint)
        tables[occurrence.alias] = table
    return tables


def _items(view: str, expressions: Iterable[exp.Expr]) -> dict[str, exp.Expr]:
    """The outputs by name."""
    found: list[tuple[str, exp.Expr]] = []
    for item in expressions:
        if isinstance(item, exp.Alias):
            found.append((item.alias, item.this))
        elif isinstance(item, exp.Column):
            found.append((item.name, item))
        else:
            refuse(view, item, "an expression needs a name", "write … AS name")
    check_names(view, [name for name, _ in found])
    return dict(found)


def _conditions(clause_: exp.Expr | None, scope: Scope) -> tuple[Clause, ...]:
    if clause_ is None:
        return ()
    return tuple(condition_clause(part, scope) for part in conjuncts(clause_.this))


def _group(
    definition: ViewDefinition, statement: exp.Select, scope: Scope
) -> tuple[Clause, ...] | None:
    group, having = statement.args.get("group"), statement.args.get("having")
    if group is not None:
        return grouped_by(group.expressions, scope)
    whole = having or next(
        (node for item in statement.expressions for node in aggregates(item)), None
    )
    if whole is not None:
        refuse(
            definition.name,
            whole,
            "an aggregate of the whole table is one row without a key",
            "write GROUP BY",
        )
    return None


def _grouping(definition: ViewDefinition, body: Body, statement: exp.Select) -> Grouping:
    group = body.group or ()
    start = {item.column for item in group if item.column is not None}
    settled = settled_by(start, body.joins, body.where, body.tables)
    needed = any(_orders(node) for node in aggregates(statement))
    scope = row_scope(definition.name, body.tables)
    ties: list[Sort] = []
    for column in untold(settled, body.tables) if needed else []:
        node = next(o.node for o in definition.occurrences if o.alias == column.alias)
        ties.append(key_sort(column, type_of(column, body.tables), node, scope))
    return Grouping(definition.name, body.tables, group, ties)


def _orders(node: exp.Expr) -> bool:
    """Whether the aggregate puts rows in an order."""
    return isinstance(node, exp.ArrayAgg | exp.JSONArrayAgg | exp.GroupConcat | exp.Anonymous)
