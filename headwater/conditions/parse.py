"""The text of a condition read. Pure.

    condition  = term { "or" term }
    term       = factor { "and" factor }
    factor     = "not" factor | "(" condition ")" | comparison
    comparison = column ( "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" ) operand
               | column "is" [ "not" ] ( "null" | "distinct" "from" operand )
               | column [ "not" ] "in" "(" literal { "," literal } ")"
               | column [ "not" ] "like" 'text'
    operand    = literal | column
    literal    = 'text' | number | true | false
    column     = [ ( "before" | "after" ) "." ] name

Every error names the character at which it stands, from 1.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from headwater.conditions.condition import (
    AFTER,
    BEFORE,
    DISTINCT,
    EQUAL,
    NOT_DISTINCT,
    UNEQUAL,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    ConditionError,
    IsNull,
    Like,
    Literal,
    Not,
    Reference,
)

_LONGEST: Final = 1_000
_MOST_COMPARISONS: Final = 20
_DEEPEST: Final = 20
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\0]|'')*')
  | (?P<quoted>"(?:[^"\0]|"")+")
  | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?(?![\w.]))
  | (?P<word>[^\W\d][\w$]*)
  | (?P<sign><>|!=|<=|>=|[=<>])
  | (?P<mark>[(),.])
    )""",
    re.VERBOSE,
)
_RESERVED: Final = frozenset(
    ("and", "distinct", "false", "from", "in", "is", "like", "not", "null", "or", "true")
)
GRAMMAR: Final = (
    "write COLUMN = LITERAL, with =, <>, <, <=, >, >=, is null, is distinct from, in or like, and "
    "join several with and, or, not and parentheses"
)


def parse_condition(text: str) -> Condition:
    """Raises ``ConditionError``."""
    if len(text) > _LONGEST:
        raise ConditionError(f"it has more than {_LONGEST:,} characters", GRAMMAR)
    reader = _Reader(text)
    found = reader.condition(0)
    if not reader.ended:
        raise reader.missing("and, or, or the end")
    return found


class _Reader:
    """Reads a text from its begin to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._end = len(text.rstrip())
        self._comparisons = 0

    @property
    def ended(self) -> bool:
        return self._at >= self._end

    def condition(self, depth: int) -> Condition:
        parts = [self._term(depth)]
        while self._taken("word", "or"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _term(self, depth: int) -> Condition:
        parts = [self._factor(depth)]
        while self._taken("word", "and"):
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _factor(self, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise ConditionError(f"it is nested more than {_DEEPEST} levels deep", GRAMMAR)
        if self._taken("word", "not"):
            return Not(self._factor(depth + 1))
        if self._taken("mark", "("):
            inner = self.condition(depth + 1)
            self._want("mark", ")")
            return inner
        return self._comparison()

    def _comparison(self) -> Condition:
        column = self._column()
        if self._taken("word", "is"):
            return self._is(column)
        negated = bool(self._taken("word", "not"))
        if self._taken("word", "in"):
            return _negated(self._in(column), negated)
        if self._taken("word", "like"):
            return _negated(self._like(column), negated)
        sign = "" if negated else self._taken("sign")
        if not sign:
            raise self.missing("in or like" if negated else "an operator")
        self._count()
        return Compare(column, UNEQUAL if sign == "!=" else sign, self._operand())

    def _is(self, column: Reference) -> Condition:
        self._count()
        negated = bool(self._taken("word", "not"))
        if self._taken("word", "distinct"):
            self._want("word", "from")
            return Compare(column, NOT_DISTINCT if negated else DISTINCT, self._operand())
        self._want("word", "null")
        return _negated(IsNull(column), negated)

    def _in(self, column: Reference) -> Condition:
        self._want("mark", "(")
        found: list[Condition] = []
        while not found or self._taken("mark", ","):
            self._count()
            found.append(Compare(column, EQUAL, self._literal()))
        self._want("mark", ")")
        return found[0] if len(found) == 1 else AnyOf(tuple(found))

    def _like(self, column: Reference) -> Condition:
        self._count()
        at = self._place()
        text = self._taken("text")
        if not text:
            raise self.missing("a pattern in single quotes")
        pattern = _unquoted(text)
        if re.search(r"(?<!\\)(?:\\\\)*\\\Z", pattern):
            raise ConditionError(f"at character {at}: the pattern ends with its escape \\", GRAMMAR)
        return Like(column, pattern)

    def _operand(self) -> Literal | Reference:
        at, end = self._at, self._end
        if at < end and self._peek() in ("word", "quoted") and not self._is_boolean():
            return self._column()
        return self._literal()

    def _literal(self) -> Literal:
        if text := self._taken("text"):
            return _unquoted(text)
        if number := self._taken("number"):
            return Decimal(number)
        if word := self._taken("word", "true", "false"):
            return word.lower() == "true"
        raise self.missing("a literal")

    def _column(self) -> Reference:
        at = self._place()
        name, is_word = self._name()
        if is_word and name in (BEFORE, AFTER) and self._taken("mark", "."):
            return Reference(name, self._name()[0], at)
        return Reference("", name, at)

    def _name(self) -> tuple[str, bool]:
        """A name as PostgreSQL folds it, and whether it stands without quotes."""
        if quoted := self._taken("quoted"):
            return quoted[1:-1].replace('""', '"'), False
        begin, name = self._at, self._taken("word").lower()
        if not name or name in _RESERVED:
            self._at = begin
            raise self.missing("the name of a column")
        return name, True

    def _count(self) -> None:
        self._comparisons += 1
        if self._comparisons > _MOST_COMPARISONS:
            raise ConditionError(f"it has more than {_MOST_COMPARISONS} comparisons", GRAMMAR)

    def _is_boolean(self) -> bool:
        match = _TOKEN.match(self._text, self._at)
        return match is not None and (match["word"] or "").lower() in ("true", "false")

    def _peek(self) -> str:
        match = None if self.ended else _TOKEN.match(self._text, self._at)
        return "" if match is None else match.lastgroup or ""

    def _taken(self, kind: str, *wanted: str) -> str:
        """The token that stands here if it is of that kind, and one of these; else ""."""
        match = None if self.ended else _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup != kind:
            return ""
        text = match[kind]
        if wanted and text.lower() not in wanted:
            return ""
        self._at = match.end()
        return text

    def _want(self, kind: str, wanted: str) -> None:
        if not self._taken(kind, wanted):
            raise self.missing(wanted)

    def _place(self) -> int:
        """The character at which the next token begins, from 1."""
        rest = self._text[self._at :]
        return self._at + len(rest) - len(rest.lstrip()) + 1

    def missing(self, wanted: str) -> ConditionError:
        return ConditionError(f"at character {self._place()}: {wanted} is missing", GRAMMAR)


def _negated(condition: Condition, negated: bool) -> Condition:
    return Not(condition) if negated else condition


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
