"""A view's SQL parsed, and checked as far as text alone allows. Pure.

One SELECT over tables that are joined by equality; every clause that is not known here is refused.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.parser import PostgresAsWritten
from views.parse.single_statement import fold_identifiers, single_statement
from views.parse.syntax_errors import place
from views.spark.expressions.terms import excerpt


class Occurrence(NamedTuple):
    """A table where the SQL reads it: a table that is joined with itself occurs twice.

    ``alias`` is what the SQL calls it there. ``node`` is it, or the join that brings it in.
    """

    alias: str
    schema: str
    table: str
    node: exp.Table | exp.Join

    @property
    def table_name(self) -> str:
        return f"{self.schema}.{self.table}"


def refused(name: str, node: exp.Expr, reason: str, hint: str = "") -> ViewError:
    """An error that names the view, the place in its SQL and what stands there."""
    return ViewError(f"views.{name}.sql{place(node)}: {excerpt(node)}: {reason}", hint)


def refuse(name: str, node: exp.Expr, reason: str, hint: str = "") -> NoReturn:
    """Raise what ``refused`` makes."""
    raise refused(name, node, reason, hint)


def parse_statement(name: str, sql: str) -> exp.Select:
    """The one SELECT of the view, identifiers folded as PostgreSQL folds them."""
    statement = single_statement(name, sql, PostgresAsWritten)
    if isinstance(statement, exp.SetOperation):
        refuse(name, statement, "UNION, INTERSECT and EXCEPT are not supported in views")
    if not isinstance(statement, exp.Select):
        refuse(name, statement, "is not a SELECT")
    fold_identifiers(statement)
    _check_clauses(name, statement)
    return statement


_UNSUPPORTED = {
    "with_": "WITH is not supported in views",
    "laterals": "LATERAL is not supported in views",
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
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_READ = {"expressions", "from_", "joins", "where", "group", "having", "kind"}


def _check_clauses(name: str, statement: exp.Select) -> None:
    for part, value in statement.args.items():
        if not value or part in _READ:
            continue
        node = value[0] if isinstance(value, list) else value
        reason = _UNSUPPORTED.get(part, f"the clause {part} is not known here")
        refuse(name, node if isinstance(node, exp.Expr) else statement, reason)
    group = statement.args.get("group")
    if group is not None:
        sets = any(isinstance(item, _SETS) for item in group.expressions)
        if sets or any(group.args[part] for part in group.args if part != "expressions"):
            refuse(name, group, "only plain GROUP BY is maintained", "name the columns")


def occurrences(name: str, statement: exp.Select) -> tuple[Occurrence, ...]:
    """What FROM reads, in its order. A table that is not qualified is in ``public``."""
    source = statement.args.get("from_")
    if source is None:
        raise ViewError(f"views.{name}.sql: reads no table", "write SELECT … FROM table")
    found = [_occurrence(name, source.this, source.this)]
    for join in statement.args.get("joins") or []:
        _check_join(name, join)
        found.append(_occurrence(name, join.this, join))
        if found[-1].alias in {other.alias for other in found[:-1]}:
            reason = f"two tables are called {found[-1].alias!r}"
            refuse(name, join.this, reason, "give one another alias: FROM table AS alias")
    return tuple(found)


def _occurrence(name: str, table: exp.Expr, node: exp.Table | exp.Join) -> Occurrence:
    if isinstance(table, exp.Subquery | exp.Lateral):
        refuse(name, table, "subqueries are not supported in views", "join the tables in a row")
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse(name, table, "only a table can be read")
    if table.args.get("joins"):
        refuse(name, table, "joins inside of joins are not known here", "join tables in a row")
    for part in ("laterals", "sample", "pivots", "only"):
        if table.args.get(part):
            refuse(name, table, _UNSUPPORTED.get(part, f"{part.upper()} is not supported"))
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        refuse(name, table, "a table's columns cannot be renamed here", "rename them with AS")
    if table.catalog:
        refuse(name, table, "a database cannot be named in a view", "leave it out")
    called = table.alias or table.name
    if called.startswith("__"):
        refuse(name, table, f"the alias {called!r} is reserved", "give it another one")
    return Occurrence(called, table.db or "public", table.name, node)


_SIDES = {
    "RIGHT": ("RIGHT JOIN is not known here", "begin with the other table and write LEFT JOIN"),
    "FULL": ("FULL JOIN is not maintained", "write LEFT JOIN, or two views"),
}


def _check_join(name: str, join: exp.Join) -> None:
    side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
    if side in _SIDES:
        refuse(name, join, *_SIDES[side])
    if str(join.method or "").upper() == "NATURAL":
        reason = "NATURAL JOIN means something else with each new column"
        refuse(name, join, reason, "write USING (…)")
    if join.method or kind not in ("", "INNER", "OUTER") or side not in ("", "LEFT"):
        if kind == "CROSS":
            _refuse_cross(name, join)
        refuse(name, join, "this kind of join is not known here", "write JOIN or LEFT JOIN")
    _occurrence(name, join.this, join)
    if join.args.get("on") is None and not join.args.get("using"):
        _refuse_cross(name, join)


def _refuse_cross(name: str, join: exp.Join) -> NoReturn:
    _occurrence(name, join.this, join)
    reason = "several tables without ON: a change of one row would touch every row of the other"
    refuse(name, join.this, reason, "write JOIN … ON a.x = b.y")
