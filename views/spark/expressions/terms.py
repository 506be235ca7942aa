"""What an expression of a view is translated to, and how its literals take a type. Pure.

The translation is typed: PostgreSQL chooses what ``/``, ``||`` or ``date_trunc`` do by the types
of their operands, Spark chooses otherwise. Every construct that is let through was compared with
a real PostgreSQL (``tests/integration/views/test_expressions.py``); anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.syntax_errors import place
from views.table_versions import TableVersion
from views.types import BOOL, FLOATS, INTEGERS, STRINGS, TEXT, UNKNOWN, PgType, numeric


class Term(NamedTuple):
    """A Spark SQL expression and the PostgreSQL type of its value.

    ``text`` is the value of a literal, as written; ``None`` for anything else (and for NULL).
    """

    sql: str
    type: PgType
    text: str | None = None

    @property
    def is_null(self) -> bool:
        return self.sql == "NULL"


class ColumnRef(NamedTuple):
    """A column of an occurrence: of what the SQL calls ``alias``."""

    alias: str
    column: str


@dataclass(slots=True)
class Scope:
    """What names mean inside one view, and which columns its expressions were found to read.

    ``tables`` are the occurrences by alias. ``named`` is how Spark SQL is to name a column.
    """

    view: str
    tables: Mapping[str, TableVersion]
    compile_node: Callable[[exp.Expr, Scope], Term]
    named: Callable[[ColumnRef], str]
    reads: set[ColumnRef] = field(default_factory=set)
    _known: dict[int, tuple[exp.Expr, Term]] = field(default_factory=dict)

    def compile(self, node: exp.Expr) -> Term:
        """Translate an expression. Handlers ask for types first, and again: each once is enough."""
        known = self._known.get(id(node))
        if known is None:  # with the node, so that no other one gets its id
            known = self._known[id(node)] = (node, self.compile_node(node, self))
        return known[1]

    def refuse(self, node: exp.Expr, reason: str, hint: str = "") -> NoReturn:
        """Raise ``ViewError`` naming the view, the place in its SQL and the expression."""
        raise ViewError(f"views.{self.view}.sql{place(node)}: {excerpt(node)}: {reason}", hint)


def excerpt(node: exp.Expr) -> str:
    """The node as PostgreSQL would write it, cut to one short line."""
    text = " ".join(node.sql("postgres").split())
    return text if len(text) <= 60 else text[:57] + "..."


def unqualified(column: ColumnRef) -> str:
    """The column's name where only one table is read."""
    return identifier(column.column)


def qualified(column: ColumnRef) -> str:
    """The column's name among those of several tables."""
    return f"{identifier(column.alias)}.{identifier(column.column)}"


def quote(text: str) -> str:
    """A Spark SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """A Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def cast(term: Term, target: PgType) -> Term:
    """A Spark cast that is known to be exact; ``views.spark.expressions.casts`` knows which are."""
    return Term(f"CAST({term.sql} AS {target.spark})", target)


# Literals that PostgreSQL reads the same under every setting, and Spark reads the same way.
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?"
_TIMESTAMP = re.compile(rf"{_TIME}|\d{{4}}-\d\d-\d\d")
_TIMESTAMPTZ = re.compile(rf"{_TIME} ?(Z|[+-]\d\d(:?\d\d)?)")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_JSON = re.compile(r'\[\]|\{\}|null|true|false|0|-?[1-9]\d*|"[ !#-\[\]-~]*"')
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BOOL = {"t": "true", "true": "true", "f": "false", "false": "false"}
_FORMS = {
    "date": _DATE,
    "timestamp": _TIMESTAMP,
    "timestamptz": _TIMESTAMPTZ,
    "int2": _INTEGER,
    "int4": _INTEGER,
    "int8": _INTEGER,
    "float4": _NUMBER,
    "float8": _NUMBER,
    "numeric": _NUMBER,
    "uuid": _UUID,
    "json": _JSON,
    "jsonb": _JSON,
}
_EXAMPLES = {
    "date": "'2024-02-29'",
    "timestamp": "'2024-02-29 12:00:00'",
    "timestamptz": "'2024-02-29T12:00:00Z'",
    "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
}


def adopt(term: Term, target: PgType, node: exp.Expr, scope: Scope) -> Term:
    """Give a literal of unknown type the type of what it stands beside, as PostgreSQL does."""
    if term.type != UNKNOWN:
        return term
    if term.text is None:
        return Term(f"CAST(NULL AS {target.spark})", target)
    if target.name == "bpchar":  # trailing blanks do not count
        return Term(quote(term.text.rstrip(" ")), target, term.text)
    if target.name in STRINGS or target.name == "enum":
        return replace_type(term, target)
    if target.name == "bool" and term.text in _BOOL:
        return Term(_BOOL[term.text], BOOL, term.text)
    if target.name == "array" and target.element != "struct" and term.text == "{}":
        return Term(f"CAST(array() AS {target.spark})", target)
    form = _FORMS.get(target.name)
    if form is None:
        scope.refuse(node, f"literals of type {target} are not known here")
    if not form.fullmatch(term.text):
        hint = f"write it like {example}" if (example := _EXAMPLES.get(target.name)) else ""
        scope.refuse(node, f"{term.text!r} is not a plain {target} literal", hint)
    if target.name in ("uuid", "json", "jsonb"):
        return replace_type(term, target)
    if target.name == "numeric":
        return number(term.text, node, scope)
    text = re.sub(r" (?=[+Z-])", "", term.text) if target.name == "timestamptz" else term.text
    return Term(f"CAST({quote(text)} AS {target.spark})", target)


def replace_type(term: Term, target: PgType) -> Term:
    """The same expression, known to have another type of the same representation."""
    return term._replace(type=target)


def settled(term: Term) -> Term:
    """A literal that nothing gave a type is text."""
    if term.type != UNKNOWN:
        return term
    return Term(f"CAST({term.sql} AS string)", TEXT)


def number(text: str, node: exp.Expr, scope: Scope) -> Term:
    """A numeric literal: the smallest integer type that holds it, else an exact decimal."""
    if _INTEGER.fullmatch(text):
        for name, bits in (("int4", 31), ("int8", 63)):
            if -(1 << bits) <= int(text) < 1 << bits:
                kind = PgType(name)
                return Term(f"CAST({int(text)} AS {kind.spark})", kind, text)
    if "e" in text.lower():
        scope.refuse(node, "a literal with an exponent", "write it out")
    whole, _, fraction = text.lstrip("+-").partition(".")
    kind = numeric(max(len(whole.lstrip("0")), 0) + len(fraction) or 1, len(fraction))
    if not kind.exact:
        scope.refuse(node, "a numeric literal of more than 38 digits")
    return Term(f"CAST('{text}' AS {kind.spark})", kind, text)


def literal_count(
    node: exp.Expr, scope: Scope, part: exp.Expr | None, least: int, lowest: int = 0
) -> int:
    """A literal integer argument; others could be negative, where the two systems differ.

    ``lowest`` is what is written where the tree has 0.
    """
    number = part.this if isinstance(part, exp.Neg) else part
    if not isinstance(number, exp.Literal) or number.is_string or not number.is_int:
        scope.refuse(node, "this has to be an integer that is written out")
    value = -int(number.this) if isinstance(part, exp.Neg) else int(number.this)
    if value < least:
        scope.refuse(node, f"{value + lowest} is below {least + lowest}")
    return value


def family(kind: PgType) -> str:
    """Types of one family compare with each other without a cast being written."""
    if kind.name in INTEGERS or kind.name in FLOATS or kind.name == "numeric":
        return "number"
    return "text" if kind.name in STRINGS else kind.name


def readable(term: Term, node: exp.Expr, scope: Scope) -> Term:
    """An operand an expression may compute with; refuses the types whose text stands for them."""
    kind = term.type
    if kind.name == "bpchar":  # PostgreSQL ignores its trailing blanks, save in LIKE
        return Term(f"rtrim({term.sql})", PgType("text"))
    if kind.name == "numeric" and not kind.exact:
        scope.refuse(
            node,
            "numeric without limits cannot be computed with exactly",
            "cast it: ::numeric(p,s)",
        )
    return term
