"""The one statement that a view's SQL is, however a dialect reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile

import sqlglot
from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from cdc.errors import ViewError
from views.parse.syntax_errors import misparsed


def single_statement(view: str, sql: str, dialect: type[Dialect]) -> exp.Expr:
    """Raises ``ViewError`` for what does not parse, and for several statements or none."""
    try:
        parsed = sqlglot.parse(sql, read=dialect)
    except (ParseError, TokenError) as error:
        raise misparsed(view, sql, error) from None
    # A comment behind the semicolon is a statement to the parser.
    statements = [item for item in parsed if not isinstance(item, exp.Semicolon | None)]
    if len(statements) != 1:
        raise ViewError(f"views.{view}.sql: holds {len(statements)} statements", "write one SELECT")
    return statements[0]


def fold_identifiers(statement: exp.Expr) -> None:
    """Write them in it as PostgreSQL reads them."""
    for node in statement.find_all(exp.Identifier):
        if not node.args.get("quoted"):
            node.set("this", str(node.this).lower())


def bounds(tokens: Sequence[Token], sql: str) -> tuple[int, int]:
    """Where the one statement of a text begins and ends: no semicolon, and no comment behind one,
    may stand in a subquery."""
    own = list(dropwhile(_ends, tokens))
    begin = own[0].start if own[0] is not tokens[0] else 0
    return begin, next((token.start for token in own if _ends(token)), len(sql))


def _ends(token: Token) -> bool:
    return token.token_type is TokenType.SEMICOLON
