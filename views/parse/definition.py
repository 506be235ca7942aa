"""A view as declared: SQL over captured tables, checked as far as text alone allows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from cdc.errors import ViewError
from views.histories import several_rows
from views.parse.depth import bounded
from views.parse.expression_parts import aggregates, is_object
from views.parse.parser import PostgresAsWritten
from views.parse.single_statement import bounds
from views.parse.statement import Occurrence, occurrences, parse_statement


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A parsed declaration.

    ``statement`` has identifiers folded as PostgreSQL folds them. ``occurrences`` are the tables
    it reads, in the order of FROM. ``normalized`` is the SQL without its layout: two declarations
    with the same one are the same view. ``history``: as what the store keeps what rows were, empty
    where it keeps what they are.
    """

    name: str
    store: str
    key: tuple[str, ...]
    sql: str
    occurrences: tuple[Occurrence, ...]
    statement: exp.Select
    history: str = ""

    @property
    def schema(self) -> str:
        """Of the first table."""
        return self.occurrences[0].schema

    @property
    def table(self) -> str:
        """The first table: the only one of a view that is not maintained over mirrors."""
        return self.occurrences[0].table

    @property
    def alias(self) -> str:
        """What the SQL calls the first table."""
        return self.occurrences[0].alias

    @property
    def table_name(self) -> str:
        return self.occurrences[0].table_name

    @property
    def table_names(self) -> tuple[str, ...]:
        """``schema.table`` of every table that is read, each once."""
        return tuple(dict.fromkeys(occurrence.table_name for occurrence in self.occurrences))

    @property
    def maintained(self) -> bool:
        """Whether mirrors are needed: a row of the view is made of several rows, or nests objects,
        which no row of a table holds."""
        return _several(self) is not None or any(map(is_object, self.statement.walk()))

    def reading(self, rows: Callable[[str, str], str]) -> str:
        """The SQL as it was written, as a subquery may have it, reading ``rows(schema, table)``, a
        SELECT, for each table."""
        begin, end = bounds(PostgresAsWritten().tokenize(self.sql), self.sql)
        sql = self.sql[:end]
        for table in sorted(self.statement.find_all(exp.Table), key=_start, reverse=True):
            name = exp.to_identifier(table.name, quoted=True).sql("postgres")
            selected = f"({rows(table.db or 'public', table.name)})"
            selected += "" if table.alias else f" as {name}"
            sql = sql[: _start(table)] + selected + sql[table.this.meta["end"] + 1 :]
        return sql[begin:]

    @property
    def columns_named(self) -> frozenset[str] | None:
        """What the SQL calls columns, of whichever table; None where it takes all there are."""
        tables = {occurrence.alias for occurrence in self.occurrences}
        names = {column.name for column in self.statement.find_all(exp.Column)}
        for join in self.statement.find_all(exp.Join):
            names |= {column.name for column in join.args.get("using") or ()}
        is_whole = self.statement.find(exp.Star) or names & tables
        return None if is_whole else frozenset(names)

    @property
    def normalized(self) -> str:
        return self.statement.sql("postgres", comments=False)


@bounded
def parse_view(
    name: str, store: str, key: Sequence[str], sql: str, history: str = ""
) -> ViewDefinition:
    """Parse ``[views.name]``. Raises ``ViewError`` with the place and the reason.

    A table that is not qualified is in ``public``. What needs the tables' columns (names, types,
    keys) is checked by ``views.spark.resolution.resolve``, or by
    ``views.spark.view.resolve_maintained`` if it is ``maintained``.
    """
    if len(set(key)) < len(key):
        raise ViewError(f"views.{name}.key: a column is named twice", "name it once")
    statement = parse_statement(name, sql)
    found = occurrences(name, statement)
    definition = ViewDefinition(name, store, tuple(key), sql, found, statement, history)
    if history and definition.maintained:
        raise _no_history(definition)
    return definition


def _several(definition: ViewDefinition) -> exp.Expr | None:
    """The part of the SQL that makes a row of several rows, or None."""
    statement = definition.statement
    for part in ("group", "having"):
        node = statement.args.get(part)
        if isinstance(node, exp.Expr):
            return node
    if len(definition.occurrences) > 1:
        return definition.occurrences[1].node
    return next(aggregates(statement), None)


def _no_history(definition: ViewDefinition) -> ViewError:
    if _several(definition) is not None:
        return several_rows(definition.name, definition.history)
    return ViewError(
        f'view {definition.name}: no history = "{definition.history}" for rows with nested '
        "objects: they are recomputed once per batch",
        "select plain columns, and build the object when reading",
    )


def _start(table: exp.Table) -> int:
    """Where the table's name begins in the SQL."""
    first = table.args.get("db") or table.this
    return int(first.meta["start"])
