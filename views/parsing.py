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


_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
# Functions that PostgreSQL has not, or that have to stay as they are written.
_FOREIGN = ("AND", "ARRAY_CONTAINS_ALL", "ARRAY_HAS_ALL", "ARRAY_JOIN", "ARRAY_SIZE", "ARRAYAGG",
            "BOOLAND_AGG", "BOOLOR_AGG", "CHARINDEX", "DATE_TO_DATE_STR", "GROUP_CONCAT", "IFNULL",
            "INSTR", "JSONB_EXTRACT", "JSONB_EXTRACT_SCALAR", "LCASE", "LEFTPAD", "LEN", "LIKE",
            "LOCATE", "LOGICAL_AND", "LOGICAL_OR", "NVL", "OR", "PAD", "RIGHTPAD", "STARTSWITH",
            "STR_POSITION", "TIMESTAMP_TRUNC", "TIME_TO_TIME_STR", "TO_CHAR", "TRUNCATE",
            "TS_OR_DS_TO_DATE_STR", "UCASE")  # fmt: skip


class _Parser(PostgresParser):
    """``->`` takes a name or a number, which stays what it is, also if it looks like a path; it
    makes no lambda of an argument. ``date_part`` is float8 and no EXTRACT, and the template of
    ``to_char`` stays PostgreSQL's, and so does what stands in an interval. Functions of others'
    names are none."""

    FUNCTIONS = {  # noqa: RUF012
        name: build for name, build in PostgresParser.FUNCTIONS.items() if name not in _FOREIGN
    }
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse
        for name, parse in PostgresParser.FUNCTION_PARSERS.items()
        if name not in ("CONVERT", "DATE_PART", "SAFE_CAST", "TRY_CAST", "TRY_CONVERT")
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


class PostgresAsWritten(Postgres):
    Parser = _Parser
