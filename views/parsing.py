"""PostgreSQL's SQL as sqlglot reads it, but for what its own dialect makes too much of. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser


def _arrow(kind: type[exp.Expr]) -> Callable[[Any, exp.Expr, exp.Expr], exp.Expr]:
    def made(parser: Any, this: exp.Expr, expression: exp.Expr) -> exp.Expr:
        made_: exp.Expr = parser.expression(kind(this=this, expression=expression))
        return made_

    return made


class _Parser(PostgresParser):
    """``->`` takes a name or a number, which stays what it is, also if it looks like a path; it
    makes no lambda of an argument."""

    LAMBDAS = {  # noqa: RUF012
        token: parse for token, parse in PostgresParser.LAMBDAS.items() if token != TokenType.ARROW
    }
    JSON_OPERATORS = {  # noqa: RUF012
        **PostgresParser.JSON_OPERATORS,
        TokenType.ARROW: _arrow(exp.JSONExtract),
        TokenType.DARROW: _arrow(exp.JSONExtractScalar),
    }


class PostgresAsWritten(Postgres):
    Parser = _Parser
