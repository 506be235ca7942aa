"""SQL that is refused: the place, and what does not parse there, in our words. Pure."""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from cdc.errors import ViewError

_BEHIND = 30  # characters that are shown of what parsed
_WORDS = ("select", "from", "where", "group", "having", "join", "left", "inner", "outer", "using",
          "case", "when", "then", "else", "between", "distinct", "coalesce")  # fmt: skip
_UNCLOSED = re.compile(r"Missing (?P<mark>\S+) from \d+:(?P<offset>\d+)")
_TWICE = {"'": "write it twice inside of a text: 'it''s'"}


def misparsed(view: str, sql: str, error: ParseError | TokenError) -> ViewError:
    """The parser's error as one of ours."""
    if isinstance(error, TokenError):
        return _unclosed(view, sql, error)
    found = error.errors[0]
    at, before = str(found["highlight"]), str(found["start_context"])
    column = max(found["col"] - len(at) + 1, 1)
    where = f"views.{view}.sql, line {found['line']}, column {column}"
    line = before.rpartition("\n")[2].strip()[-_BEHIND:]
    behind = f", behind {line!r}" if line else ""
    return ViewError(
        f"{where}: does not parse at {at!r}{behind}: {_said(str(found['description']))}",
        _meant(sql, before, at),
    )


def _said(description: str) -> str:
    if description.startswith("Required keyword"):
        return "what belongs to it is missing"
    if found := re.fullmatch(r"Expecting (\S+)", description):
        return f"{found[1]} is missing"
    if description.startswith("Expected END"):
        return "CASE has no END"
    return "it has no meaning there"


def _meant(sql: str, before: str, at: str) -> str:
    """A word of SQL that one of those around the place nearly is."""
    around = [*re.findall(r"\w+", sql)[:1], *re.findall(r"\w+", before)[-1:], at]
    for word in dict.fromkeys(around):
        close = get_close_matches(word.lower(), _WORDS, 1, 0.75)
        if close and close[0] != word.lower():
            return f"did you mean {close[0].upper()} for {word!r}?"
    return ""


def _unclosed(view: str, sql: str, error: TokenError) -> ViewError:
    """Of a text, a quoted name or a comment that goes on to the end."""
    found = _UNCLOSED.match(str(error.__cause__))
    if found is None:
        return ViewError(f"views.{view}.sql: does not parse: a comment or string is not closed")
    mark, offset = found["mark"], int(found["offset"])
    where = ""
    if sql[offset:].startswith(mark):
        line, column = sql.count("\n", 0, offset) + 1, offset - sql.rfind("\n", 0, offset)
        where = f", line {line}, column {column}"
    return ViewError(
        f"views.{view}.sql{where}: does not parse: {mark} opens here and is not closed",
        _TWICE.get(mark, ""),
    )


def place(node: exp.Expr) -> str:
    """``, line 1, column 8``: where the node begins, as far as the parser kept it."""
    found = [part.meta for part in node.walk() if "line" in part.meta]
    if not found:
        return ""
    first = min(found, key=lambda meta: meta["start"])
    width = first["end"] - first["start"]
    return f", line {first['line']}, column {max(first['col'] - width, 1)}"
