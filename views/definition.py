"""A view as declared: SQL over one captured table, checked as far as text alone allows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from cdc.errors import ViewError
from views.terms import excerpt, place


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A parsed declaration.

    ``statement`` has identifiers folded as PostgreSQL folds them. ``alias`` is what the SQL calls
    the table. ``normalized`` is the SQL without its layout: two declarations with the same one
    are the same view.
    """

    name: str
    store: str
    key: tuple[str, ...]
    sql: str
    schema: str
    table: str
    alias: str
    statement: exp.Select

    @property
    def table_name(self) -> str:
        return f"{self.schema}.{self.table}"

    def reading(self, rows: Callable[[str, str], str]) -> str:
        """The SQL as it was written, reading ``rows(schema, table)``, a SELECT, for each table."""
        sql = self.sql
        for table in sorted(self.statement.find_all(exp.Table), key=_start, reverse=True):
            name = exp.to_identifier(table.name, quoted=True).sql("postgres")
            selected = f"({rows(table.db or 'public', table.name)})"
            selected += "" if table.alias else f" as {name}"
            sql = sql[: _start(table)] + selected + sql[table.this.meta["end"] + 1 :]
        return sql

    @property
    def normalized(self) -> str:
        return self.statement.sql("postgres", comments=False)


def parse_view(name: str, store: str, key: Sequence[str], sql: str) -> ViewDefinition:
    """Parse ``[views.name]``. Raises ``ViewError`` with the place and the reason.

    A table that is not qualified is in ``public``. What needs the table's columns (names, types,
    the key) is checked by ``views.resolve.resolve``.
    """
    statement = _parse(name, sql)
    for part, reason in _UNSUPPORTED.items():
        found = statement.args.get(part)
        if found:
            node = found[0] if isinstance(found, list) else found
            _refuse(name, node if isinstance(node, exp.Expr) else statement, reason)
    table = _table(name, statement)
    schema = table.db or "public"
    if table.catalog:
        _refuse(name, table, "a database cannot be named in a view", "leave it out")
    _check_whole(name, statement)
    return ViewDefinition(
        name, store, tuple(key), sql, schema, table.name, table.alias or table.name, statement
    )


def _start(table: exp.Table) -> int:
    """Where the table's name begins in the SQL."""
    first = table.args.get("db") or table.this
    return int(first.meta["start"])


_NOT_YET = "views over several tables are not supported yet"
_UNSUPPORTED = {
    "with_": "WITH is not supported in views",
    "joins": _NOT_YET,
    "laterals": _NOT_YET,
    "group": "GROUP BY is not supported in views yet",
    "having": "HAVING is not supported in views yet",
    "distinct": "DISTINCT is not supported in views: rows are kept by key",
    "order": "ORDER BY means nothing in a view: stores are read by key",
    "limit": "LIMIT cannot be maintained from changes",
    "offset": "OFFSET cannot be maintained from changes",
    "fetch": "FETCH cannot be maintained from changes",
    "windows": "window functions are not supported in views",
    "into": "SELECT INTO is not a view",
    "locks": "row locks have no place in a view",
    "sample": "TABLESAMPLE cannot be maintained from changes",
}
_READ = {"expressions", "from_", "where", "kind"}


def _parse(name: str, sql: str) -> exp.Select:
    try:
        statements = [item for item in sqlglot.parse(sql, read="postgres") if item is not None]
    except ParseError as error:
        where = error.errors[0]
        raise ViewError(
            f"views.{name}.sql, line {where['line']}, column {where['col']}: does not parse near "
            f"{where['highlight']!r}: {where['description']}"
        ) from None
    except TokenError as error:
        raise ViewError(f"views.{name}.sql: does not parse: {error}") from None
    if len(statements) != 1:
        raise ViewError(f"views.{name}.sql: holds {len(statements)} statements", "write one SELECT")
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        _refuse(name, statement, "UNION, INTERSECT and EXCEPT are not supported in views")
    if not isinstance(statement, exp.Select):
        _refuse(name, statement, "is not a SELECT")
    for node in statement.find_all(exp.Identifier):
        if not node.args.get("quoted"):
            node.set("this", str(node.this).lower())
    return statement


def _table(name: str, statement: exp.Select) -> exp.Table:
    source = statement.args.get("from_")
    if source is None:
        raise ViewError(f"views.{name}.sql: reads no table", "write SELECT … FROM table")
    table = source.this
    if isinstance(table, exp.Subquery):
        _refuse(name, table, "subqueries are not supported in views")
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        _refuse(name, table, "only a table can be read")
    for part in ("joins", "laterals", "sample", "pivots", "only"):
        if table.args.get(part):
            _refuse(name, table, _UNSUPPORTED.get(part, f"{part.upper()} is not supported"))
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        _refuse(name, table, "a table's columns cannot be renamed here", "rename them with AS")
    return table


def _check_whole(name: str, statement: exp.Select) -> None:
    """Whatever clause is left is one that nothing above knows."""
    for part, value in statement.args.items():
        if part not in _READ and part not in _UNSUPPORTED and value:
            _refuse(name, statement, f"the clause {part} is not known here")


def _refuse(name: str, node: exp.Expr, reason: str, hint: str = "") -> NoReturn:
    raise ViewError(f"views.{name}.sql{place(node)}: {excerpt(node)}: {reason}", hint)
