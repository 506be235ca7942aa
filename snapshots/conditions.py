"""Conditions that may be asked for from elsewhere: columns compared with constants. Pure.

A signal's filter comes from whoever can write to a table or a topic, and is executed with the
rights of capture's role. So it is parsed, and what is executed is written anew from what was
understood: no function, no subquery, no cast, no operator but those below.

    condition  = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation   = NOT negation | ( condition ) | column [ predicate ]
    predicate  = comparison operand | [NOT] IN ( operand, ... ) | [NOT] BETWEEN operand AND operand
               | [NOT] LIKE operand | [NOT] ILIKE operand | IS [NOT] NULL | IS [NOT] TRUE | ...
    operand    = column | string | number | TRUE | FALSE
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cdc.source.postgres import identifier

_LONGEST: Final = 10_000
"""Characters: of a filter that a person or a program has reason to write."""
_DEEPEST: Final = 50
"""Of parentheses and NOT: each is a call of this parser."""
_GROWTH: Final = 5
"""How many times longer a condition may be once it is written anew; each comparison is then in
parentheses of its own, so it is one deeper, too."""
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\0]|'')*')
  | (?P<quoted>"(?:[^"\0]|"")+")
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.$]))
  | (?P<word>[^\W\d][\w$]*(?!['"]))
  | (?P<sign><>|!=|<=|>=|[=<>(),+-])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Final = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_RESERVED: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "IS", "NULL", "TRUE", "FALSE")
)


class ConditionError(ValueError):
    """It is no such condition; the text says where, and quotes nothing of it."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def simple_condition(text: str) -> str:
    """The condition as SQL, names quoted. Raises ``ConditionError``."""
    return _written(text, _LONGEST, _DEEPEST)


def recorded_condition(text: str) -> str:
    """One that ``simple_condition`` has written, maybe that of an earlier version, parsed again.
    Raises ``ConditionError``."""
    return _written(text, _GROWTH * _LONGEST, _DEEPEST + 1)


def _written(text: str, longest: int, deepest: int) -> str:
    if len(text) > longest:
        raise ConditionError(f"it has more than {longest:,} characters")
    return _Parser(_tokens(text), deepest).whole()


def _tokens(text: str) -> list[_Token]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown(at)
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", end)]


def _unknown(at: int) -> ConditionError:
    return ConditionError(
        f"at character {at + 1}: a filter compares columns with constants (=, <>, <, <=, >, >=, "
        "IN, BETWEEN, LIKE, IS NULL, with AND, OR, NOT): for another condition use "
        "headwater snapshot start --where"
    )


class _Parser:
    """Reads tokens from the first to the last; each method writes what it has read."""

    def __init__(self, tokens: list[_Token], deepest: int) -> None:
        self._tokens = tokens
        self._deepest = deepest
        self._next = 0
        self._depth = 0

    def whole(self) -> str:
        written = self._condition()
        if self._token.kind != "end":
            raise _unknown(self._token.at)
        return written

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _taken(self, *words: str) -> str:
        """The word or sign that stands here, if it is one of these."""
        token = self._token
        found = token.text.upper()
        if token.kind in ("word", "sign") and found in words:
            self._next += 1
            return found
        return ""

    def _expected(self, *words: str) -> str:
        found = self._taken(*words)
        if not found:
            raise _unknown(self._token.at)
        return found

    def _condition(self) -> str:
        parts = [self._conjunction()]
        while self._taken("OR"):
            parts.append(self._conjunction())
        return " OR ".join(parts)

    def _conjunction(self) -> str:
        parts = [self._negation()]
        while self._taken("AND"):
            parts.append(self._negation())
        return " AND ".join(parts)

    def _negation(self) -> str:
        self._depth += 1
        if self._depth > self._deepest:
            raise ConditionError(f"its parentheses are more than {self._deepest} deep")
        if self._taken("NOT"):
            written = f"NOT {self._negation()}"
        elif self._taken("("):
            written = f"({self._condition()})"
            self._expected(")")
        else:
            written = f"({self._column()}{self._predicate()})"
        self._depth -= 1
        return written

    def _predicate(self) -> str:
        """Nothing after a column that is itself true or false."""
        if sign := self._taken(*_COMPARISONS):
            return f" {sign} {self._operand()}"
        if self._taken("IS"):
            negated = " NOT" if self._taken("NOT") else ""
            return f" IS{negated} {self._expected('NULL', 'TRUE', 'FALSE', 'UNKNOWN')}"
        negated = " NOT" if self._taken("NOT") else ""
        if self._taken("IN"):
            return f"{negated} IN ({', '.join(self._operands())})"
        if self._taken("BETWEEN"):
            low = self._operand()
            self._expected("AND")
            return f"{negated} BETWEEN {low} AND {self._operand()}"
        if like := self._taken("LIKE", "ILIKE"):
            return f"{negated} {like} {self._operand()}"
        if negated:
            raise _unknown(self._token.at)
        return ""

    def _operands(self) -> list[str]:
        self._expected("(")
        found = [self._operand()]
        while self._taken(","):
            found.append(self._operand())
        self._expected(")")
        return found

    def _operand(self) -> str:
        if constant := self._taken("TRUE", "FALSE"):
            return constant
        sign = self._taken("-", "+")
        token = self._token
        if token.kind == "number" or (token.kind == "string" and not sign):
            self._next += 1
            return f"{sign}{token.text}"
        if sign:
            raise _unknown(token.at)
        return self._column()

    def _column(self) -> str:
        token = self._token
        if token.kind == "quoted":
            name = token.text[1:-1].replace('""', '"')
        elif token.kind == "word" and token.text.upper() not in _RESERVED:
            name = token.text.lower()  # as PostgreSQL folds it
        else:
            raise _unknown(token.at)
        self._next += 1
        return identifier(name)
