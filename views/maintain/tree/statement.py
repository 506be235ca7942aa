"""A view's SQL parsed into one query, and what cannot be a view refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from views.function_names import BUILTIN, CLOCK, LOCAL_CLOCK, ROWS, VOLATILE, words
from views.maintain.tree import functions
from views.maintain.tree.errors import refuse
from views.maintain.tree.parser import Verbatim, text
from views.parse.single_statement import fold_identifiers, single_statement

_SYSTEM = words("ctid xmin xmax cmin cmax tableoid")
_PARAMETERS = (exp.Parameter, exp.Placeholder, exp.SessionParameter)


def parse(view: str, sql: str) -> exp.Expr:
    """The one query of a view, identifiers folded as PostgreSQL folds them.

    Raises ``ViewError`` for what does not parse, is not written again as it was read, or is no
    query.
    """
    statement = single_statement(view, sql, Verbatim)
    if not isinstance(statement, exp.Query):
        refuse(view, statement, "is not a SELECT")
    fold_identifiers(statement)
    _check_faithful(view, statement)
    return statement


def _check_faithful(view: str, statement: exp.Expr) -> None:
    written = text(statement)
    try:
        again = sqlglot.parse_one(written, read=Verbatim)
    except (ParseError, TokenError):
        again = None
    if again is None or text(again) != written:
        refuse(view, statement, "this SQL is not understood as PostgreSQL understands it",
               "write it with fewer kinds of syntax, and tell us of it")  # fmt: skip


def check(view: str, statement: exp.Expr, known: Mapping[str, str]) -> bool:
    """Refuse what no view can keep; return whether it reads the clock.

    ``known`` are functions beyond PostgreSQL's own: their volatility by name.
    """
    clock = False
    for node in statement.walk():
        if isinstance(node, _PARAMETERS):
            refuse(view, node, "a view has no parameters", "write the value")
        if isinstance(node, exp.Column) and node.name in _SYSTEM:
            refuse(view, node, "a system column is another one in each copy of the table",
                   "leave it out")  # fmt: skip
        name = functions.name(node)
        if name:
            _check_function(view, node, name, known)
        clock = clock or name in CLOCK
    for select in statement.find_all(exp.Select):
        _check_rows(view, select)
    return clock


def _check_function(view: str, node: exp.Expr, name: str, known: Mapping[str, str]) -> None:
    schema = ""
    if isinstance(node.parent, exp.Dot):
        schema = node.parent.this.name
        name = name if schema == "pg_catalog" else f"{schema}.{name}"
    volatility = known.get(name, "")
    if name in VOLATILE or volatility == "volatile":
        refuse(view, node, "it is volatile: it gives another value each time",
               "leave it out, or write the value into a column of the table")  # fmt: skip
    if name in LOCAL_CLOCK:
        refuse(view, node, "it depends on the time zone of the session",
               "write (now() AT TIME ZONE 'Europe/Berlin')::date, or another zone")  # fmt: skip
    if name in CLOCK or name in BUILTIN or volatility:
        return
    if name == "any_value":
        refuse(view, node, "it may give any of the values", "write min or max")
    refuse(view, node, "is no function of PostgreSQL that gives the same for the same rows",
           "write what it computes into the SQL, or into a published column of the table: your own "
           "functions are not supported")  # fmt: skip


def _check_rows(view: str, select: exp.Select) -> None:
    """Functions that give rows have their place in FROM."""
    for item in select.expressions:
        for node in item.walk(prune=lambda part: isinstance(part, exp.Query)):
            if functions.name(node) in ROWS:
                hint = "write it in FROM: CROSS JOIN LATERAL … WITH ORDINALITY AS t(value, n)"
                refuse(view, node, "it gives rows, which have no key in a select list", hint)
