"""Conditions of a client over a table's published values. Pure.

    condition  = comparison { "and" comparison }
    comparison = column ( "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" ) literal
               | column "is" [ "not" ] "null"
    literal    = 'text' | number | true | false

Values are compared as they are published: numbers as numbers, text by its code points. As in SQL
a comparison with null holds for no row. What a filter cannot decide exactly is refused when a
client comes, not answered by guessing later.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple
from uuid import UUID

from cdc.protocol.relation import Column, Relation

Literal = Decimal | str | bool | None

_LONGEST: Final = 1_000
_MOST_TERMS: Final = 10
_LARGE_BYTES: Final = 20
"""PostgreSQL moves no value out of its row, so that an update may leave it out, that is not larger
than the pointer which it leaves behind."""
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\0]|'')*')
  | (?P<quoted>"(?:[^"\0]|"")+")
  | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?(?![\w.]))
  | (?P<word>[^\W\d][\w$]*)
  | (?P<sign><>|!=|<=|>=|[=<>])
    )""",
    re.VERBOSE,
)
_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NULL, _NOT_NULL = "is null", "is not null"
_NUMBERS: Final = frozenset(("int2", "int4", "int8", "oid", "float4", "float8", "numeric"))
_TEXTS: Final = frozenset(("text", "varchar", "name", "uuid", "enum"))
_INFINITE: Final = {
    "POSITIVE_INFINITY": Decimal("Infinity"),
    "NEGATIVE_INFINITY": Decimal("-Infinity"),
    "Infinity": Decimal("Infinity"),
    "-Infinity": Decimal("-Infinity"),
}
_GRAMMAR: Final = (
    "write COLUMN = LITERAL, with =, <>, <, <=, >, >=, is null or is not null, and join several "
    "with and"
)


class ConditionError(ValueError):
    """It does not parse, or does not fit the table; ``hint`` says what would."""

    def __init__(self, message: str, hint: str = _GRAMMAR) -> None:
        super().__init__(message)
        self.hint = hint


class UndecidedError(ValueError):
    """An event does not say whether its row meets the condition."""


class Term(NamedTuple):
    """``sign`` is one of the operators as it is shown, ``literal`` None without one."""

    column: str
    sign: str
    literal: Literal

    def holds(self, row: Mapping[str, Any], unchanged: Sequence[str]) -> bool:
        """Raises ``UndecidedError``."""
        if self.column not in row:
            raise UndecidedError(f"the table has no column {self.column} any more")
        if self.column in unchanged:
            return self._holds_of_large()
        value = row[self.column]
        if self.sign in (_NULL, _NOT_NULL):
            return (value is None) == (self.sign == _NULL)
        return value is not None and _SIGNS[self.sign](*self._comparable(value))

    def _holds_of_large(self) -> bool:
        """A value that was left out is not null, and longer than any text that ``fitted`` lets
        it be compared with."""
        if self.sign in ("=", _NULL) and not isinstance(self.literal, Decimal):
            return False
        if self.sign in ("<>", _NOT_NULL) and not isinstance(self.literal, Decimal):
            return True
        raise UndecidedError(f"an update has left out the value of {self.column}")

    def _comparable(self, value: Any) -> tuple[Any, Any]:
        literal = self.literal
        if isinstance(literal, Decimal):
            if isinstance(value, float):
                return value, float(literal)
            if isinstance(value, int) and not isinstance(value, bool):
                return value, literal
            if isinstance(value, str):
                return _number(value, self.column), literal
        elif type(value) is type(literal):
            return value, literal
        raise UndecidedError(f"the values of {self.column} have another type than before")


def _number(value: str, column: str) -> Decimal:
    """NaN is above every other number, as in PostgreSQL; no literal is as large as infinity."""
    if value.lower() == "nan":
        return Decimal("Infinity")
    try:
        return _INFINITE.get(value) or Decimal(value)
    except InvalidOperation:
        message = f"the values of {column} have another type than before"
        raise UndecidedError(message) from None


def parse_condition(text: str) -> tuple[Term, ...]:
    """Raises ``ConditionError``."""
    if len(text) > _LONGEST:
        raise ConditionError(f"it has more than {_LONGEST:,} characters")
    tokens, terms = _Tokens(text), list[Term]()
    while True:
        terms.append(_term(tokens))
        if len(terms) > _MOST_TERMS:
            raise ConditionError(f"it has more than {_MOST_TERMS} comparisons")
        if tokens.ended:
            return tuple(terms)
        tokens.word("and")


def fitted(terms: Sequence[Term], relation: Relation) -> tuple[Term, ...]:
    """The terms with literals as the columns publish them. Raises ``ConditionError`` for what does
    not fit the table."""
    columns = {column.name: column for column in relation.columns}
    if not relation.key:
        message = f"{relation.name} has no key, so nobody can be told which row leaves a filter"
        raise ConditionError(message, "leave the filter out")
    found = []
    for term in terms:
        column = columns.get(term.column)
        if column is None:
            known = ", ".join(columns)
            raise ConditionError(f"{relation.name} has no column {term.column}", f"known: {known}")
        literal = _fitting(term, column)
        is_long = isinstance(literal, str) and len(literal.encode()) > _LARGE_BYTES
        if is_long and relation.replica_identity != "f" and column.type.base != "uuid":
            raise ConditionError(
                f"an update may leave out a value of {term.column} that is as long as this text",
                "set REPLICA IDENTITY FULL for the table, or compare with at most "
                f"{_LARGE_BYTES} bytes",
            )
        found.append(term._replace(literal=literal))
    return tuple(found)


def _fitting(term: Term, column: Column) -> Literal:
    """The literal as the column publishes its values."""
    if column.treatment is not None:
        raise ConditionError(f"{column.name} is a treated column", "compare another column")
    if term.sign in (_NULL, _NOT_NULL):
        return None
    base, literal = column.type.base, term.literal
    if isinstance(literal, bool) and base == "bool" and term.sign in ("=", "<>"):
        return literal
    if isinstance(literal, Decimal) and base in _NUMBERS:
        return literal
    if isinstance(literal, str) and base in _TEXTS and not column.collation:
        if term.sign not in ("=", "<>"):
            raise ConditionError(
                f"{column.name} is text, whose order is that of a collation", "use = or <>"
            )
        return _uuid(literal) if base == "uuid" else literal
    raise ConditionError(
        f"{column.name} is of type {column.type.name}, which is not compared with that by "
        f"{term.sign}",
        "compare numbers with numbers, text, enums and UUIDs by = and <> with 'text', booleans by "
        "= and <> with true or false, and any column with null",
    )


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise ConditionError("a UUID is compared with what is none") from None


def holds(terms: Sequence[Term], row: Mapping[str, Any], unchanged: Sequence[str] = ()) -> bool:
    """Whether a row meets all. Raises ``UndecidedError``."""
    return all(term.holds(row, unchanged) for term in terms)


def _term(tokens: _Tokens) -> Term:
    column = tokens.column()
    if tokens.taken("word", "is"):
        negated = tokens.taken("word", "not")
        tokens.word("null")
        return Term(column, _NOT_NULL if negated else _NULL, None)
    sign = tokens.sign()
    return Term(column, sign, tokens.literal())


class _Tokens:
    """Reads a text from its begin to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._end = len(text.rstrip())

    @property
    def ended(self) -> bool:
        return self._at >= self._end

    def taken(self, kind: str, *wanted: str) -> str:
        """The token that stands here if it is of that kind, and one of these; else ""."""
        match = _TOKEN.match(self._text, self._at) if not self.ended else None
        if match is None or match.lastgroup != kind:
            return ""
        text = match[kind]
        if wanted and text.lower() not in wanted:
            return ""
        self._at = match.end()
        return text

    def word(self, wanted: str) -> None:
        if not self.taken("word", wanted):
            raise self._unknown(wanted)

    def column(self) -> str:
        if quoted := self.taken("quoted"):
            return quoted[1:-1].replace('""', '"')
        name = self.taken("word").lower()  # as PostgreSQL folds it
        if not name or name in ("and", "is", "not", "null", "true", "false", "or"):
            raise self._unknown("the name of a column")
        return name

    def sign(self) -> str:
        if found := self.taken("sign"):
            return "<>" if found == "!=" else found
        raise self._unknown("an operator")

    def literal(self) -> Literal:
        if text := self.taken("text"):
            return text[1:-1].replace("''", "'")
        if number := self.taken("number"):
            return Decimal(number)
        if word := self.taken("word", "true", "false"):
            return word.lower() == "true"
        raise self._unknown("a literal")

    def _unknown(self, wanted: str) -> ConditionError:
        return ConditionError(f"at character {self._at + 1}: {wanted} is missing")
