"""PostgreSQL's SQL as sqlglot reads and writes it, with nothing made of it. Pure.

A function is a call by its name, whatever it is called in other systems; only what has a syntax of
its own (CAST, EXTRACT, CASE, ...) is more. So what is written again is what was read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from views.function_names import words

_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_SYNTAX = words(
    "CAST EXTRACT NORMALIZE OVERLAY POSITION SUBSTRING TRIM XMLELEMENT XMLTABLE JSON_OBJECT "
    "JSON_OBJECTAGG JSON_TABLE JSON_VALUE"
)


def _arrow(kind: type[exp.Expr]) -> Callable[[Any, exp.Expr, exp.Expr], exp.Expr]:
    def made(parser: Any, this: exp.Expr, expression: exp.Expr) -> exp.Expr:
        made_: exp.Expr = parser.expression(kind(this=this, expression=expression))
        return made_

    return made


class VerbatimParser(PostgresParser):
    """``->`` takes a name or a number, which stays what it is, also if it looks like a path; it
    makes no lambda of an argument. What stands in an interval stays as it is written."""

    FUNCTIONS = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse for name, parse in PostgresParser.FUNCTION_PARSERS.items() if name in _SYNTAX
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse
        for name, parse in PostgresParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name not in ("CONNECT_BY_ROOT", "IF")
    }
    LAMBDAS = {  # noqa: RUF012
        token: parse for token, parse in PostgresParser.LAMBDAS.items() if token != TokenType.ARROW
    }
    JSON_OPERATORS = {  # noqa: RUF012
        **PostgresParser.JSON_OPERATORS,
        TokenType.ARROW: _arrow(exp.JSONExtract),
        TokenType.DARROW: _arrow(exp.JSONExtractScalar),
    }

    def _parse_interval(self, *_: bool, **__: bool) -> exp.Interval | None:
        """``interval '1 day'``, or with one of SQL's own units behind it."""
        index = self._index
        if not self._match(TokenType.INTERVAL) or not self._match(TokenType.STRING, advance=False):
            self._retreat(index)
            return None
        this, unit = self._parse_primary(), None
        if self._curr is not None and self._curr.text.upper() in _UNITS:
            unit = self._parse_var(any_token=True, upper=True)
        return self.expression(exp.Interval(this=this, unit=unit))


class Verbatim(Postgres):
    """PostgreSQL's dialect, read with ``VerbatimParser``."""

    Parser = VerbatimParser


def text(node: exp.Expr) -> str:
    """The SQL of a node."""
    return node.sql(dialect=Verbatim, normalize_functions=False, comments=False)
