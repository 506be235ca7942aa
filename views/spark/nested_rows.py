"""Rows nested in a row: objects, and arrays of them in an order that a recomputation keeps. Pure.

PostgreSQL's words (``array_agg``, ``json_agg`` of ``json_build_object``) and Spark's
(``collect_list`` of ``struct``) are both taken. An array is ordered as ORDER BY says, and where
that leaves a choice, or says nothing, by the keys of the rows: both systems are told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from views.parse.expression_parts import POSTGRES, in_postgres, is_object
from views.spark.expressions.operators import ordered
from views.spark.expressions.terms import ColumnRef, Scope, Term, family, quote, readable, settled
from views.types import TEXT, UNKNOWN, PgType, array_of


def structure(node: exp.Expr, scope: Scope) -> Term | None:
    """``json_build_object('a', x)`` or ``struct(x as a)``; None for anything else.

    In PostgreSQL's words it is an object of texts, so that no value loses a digit on the way.
    """
    fields = _fields(node, scope)
    if fields is None:
        return None
    names = [name for name, _ in fields]
    if not names or len(set(names)) < len(names):
        scope.refuse(node, "the names of an object's fields are there, and once each")
    terms = [settled(scope.compile(value)) for _, value in fields]
    sql = ", ".join(f"{quote(n)}, {term.sql}" for n, term in zip(names, terms, strict=True))
    kind = PgType("struct", fields=tuple((n, t.type) for n, t in zip(names, terms, strict=True)))
    texts = [_text(value, term.type) for (_, value), term in zip(fields, terms, strict=True)]
    pairs = ", ".join(f"{_literal(n)}, {text}" for n, text in zip(names, texts, strict=True))
    node.meta[POSTGRES] = f"json_build_object({pairs})"
    return Term(f"named_struct({sql})", kind)


def _fields(node: exp.Expr, scope: Scope) -> list[tuple[str, exp.Expr]] | None:
    if not is_object(node):
        return None
    if isinstance(node, exp.Struct):
        return [_named(part, scope) for part in node.expressions]
    parts = node.expressions
    if len(parts) % 2:
        scope.refuse(node, "every field has a name and a value")
    for name in parts[::2]:
        if not isinstance(name, exp.Literal) or not name.is_string:
            scope.refuse(name, "the name of a field has to be a literal")
    return [(str(name.this), value) for name, value in zip(parts[::2], parts[1::2], strict=True)]


def _named(part: exp.Expr, scope: Scope) -> tuple[str, exp.Expr]:
    if isinstance(part, exp.PropertyEQ | exp.Alias):
        value = part.expression if isinstance(part, exp.PropertyEQ) else part.this
        return (part.this.name if isinstance(part, exp.PropertyEQ) else part.alias), value
    if isinstance(part, exp.Column):
        return part.name, part
    return scope.refuse(part, "a field needs a name", "write … AS name")


def _text(value: exp.Expr, kind: PgType) -> str:
    inner = in_postgres(value)
    nested = kind.name == "struct" or (kind.name == "array" and kind.element == "struct")
    # A cast would take the blanks of char(n), and add to inet what it is not shown with.
    return inner if nested or kind.name in ("bpchar", "inet") else f"({inner})::text"


def _literal(text: str) -> str:
    return exp.Literal.string(text).sql("postgres")


class Sort(NamedTuple):
    """One thing an array is ordered by. ``postgres`` orders there as ``sql`` does in Spark."""

    sql: str
    postgres: str
    descending: bool = False
    nulls_first: bool = False


_PLAIN = ("int2", "int4", "int8", "oid", "float4", "float8", "bool", "date", "timestamp",
          "timestamptz", "uuid", "bytea")  # fmt: skip
_BYTES = ("text", "varchar", "name", "enum", "numeric")


def key_sort(column: ColumnRef, kind: PgType, node: exp.Expr, scope: Scope) -> Sort:
    """Order by a key's column, in bytes where it is text."""
    name = in_postgres(exp.column(column.column, column.alias, quoted=True))
    sql = scope.named(column)
    if kind.name in _PLAIN or kind.exact:
        return Sort(sql, name)
    if kind.name == "bpchar":
        return Sort(f"rtrim({sql})", f'{name}::text COLLATE "C"')
    if kind.name in _BYTES:
        return Sort(sql, f'{name}::text COLLATE "C"')
    reason = f"its order cannot be fixed: {column.alias}.{column.column} is {kind}"
    return scope.refuse(node, reason, "give the table another key")


def sortable(node: exp.Expr, scope: Scope) -> Term:
    """A value whose order is the same in both systems: of text, by bytes if it says so."""
    if isinstance(node, exp.Collate):
        if node.expression.name not in ("C", "POSIX"):
            scope.refuse(node, 'only COLLATE "C" is known to agree')
        term = readable(scope.compile(node.this), node.this, scope)
        if family(term.type) != "text":
            scope.refuse(node, f"{term.type} has no collation")
        return Term(term.sql, TEXT)
    term = readable(scope.compile(node), node, scope)
    if family(term.type) == "text":
        reason = "the order of text is the database's own"
        scope.refuse(node, reason, 'write COLLATE "C" behind it: by bytes')
    if term.type.name != "uuid":
        ordered(node, scope, term)
    return term


class Listing(NamedTuple):
    """What is put into an array: a value of each row, and in which order."""

    value: Term
    node: exp.Expr
    sorts: tuple[Sort, ...]


def listing(
    node: exp.Expr, body: exp.Expr, scope: Scope, ties: Sequence[Sort], of_texts: bool = False
) -> Listing:
    """``body`` is the argument of the aggregate ``node``: a value, perhaps with ORDER BY.

    ``of_texts`` is an aggregate of them alone, which gives a quoted literal its type.
    """
    items: list[exp.Expr] = []
    if isinstance(body, exp.Order):
        items, body = body.expressions, body.this
    if isinstance(body, exp.Distinct):
        scope.refuse(node, "DISTINCT inside of an array is not known here")
    value = scope.compile(body)
    value = settled(value) if of_texts else value
    if value.type == UNKNOWN:
        scope.refuse(node, "the type of this literal is not known", "write ::text behind it")
    return Listing(value, body, (*(_sort(item, scope) for item in items), *ties))


def _sort(item: exp.Expr, scope: Scope) -> Sort:
    if isinstance(item.this, exp.Literal):
        scope.refuse(item, "a literal orders nothing")
    descending = bool(item.args.get("desc"))
    first = bool(item.args.get("nulls_first"))
    term = sortable(item.this, scope)
    return Sort(term.sql, in_postgres(item.this), descending, first)


def order_by(sorts: Sequence[Sort]) -> str:
    """ORDER BY in PostgreSQL."""
    written = (
        f"{sort.postgres} {'DESC' if sort.descending else 'ASC'} "
        f"NULLS {'FIRST' if sort.nulls_first else 'LAST'}"
        for sort in sorts
    )
    return f" ORDER BY {', '.join(written)}" if sorts else ""


def array(listed: Listing, where: str) -> str:
    """Spark SQL of the array; ``where`` is a condition for the rows that go in, or nothing."""
    fields: list[str] = []
    value = f"'v', {listed.value.sql}"
    for i, sort in enumerate(listed.sorts):
        word = "IS NOT NULL" if sort.nulls_first else "IS NULL"
        fields += [f"'n{i}', ({sort.sql} {word})", f"'k{i}', {sort.sql}"]
    row = f"named_struct({', '.join([*fields, value])})"
    rows = f"collect_list({row})" + (f" FILTER (WHERE {where})" if where else "")
    if any(sort.descending for sort in listed.sorts):
        return f"transform(array_sort({rows}, {_comparator(listed.sorts)}), r -> r.v)"
    return f"transform(sort_array({rows}), r -> r.v)"


def _comparator(sorts: Sequence[Sort]) -> str:
    cases = []
    for i, sort in enumerate(sorts):
        first, second = ("b", "a") if sort.descending else ("a", "b")
        cases.append(f"WHEN a.n{i} < b.n{i} THEN -1 WHEN a.n{i} > b.n{i} THEN 1")
        compared = f"{first}.k{i} {{}} {second}.k{i}"
        cases.append(f"WHEN {compared.format('<')} THEN -1 WHEN {compared.format('>')} THEN 1")
    return f"(a, b) -> CASE {' '.join(cases)} ELSE 0 END"


def unless_empty(sql: str) -> str:
    """NULL instead of an empty array, as PostgreSQL's aggregates have it."""
    return f"try_element_at(filter(array({sql}), l -> size(l) > 0), 1)"


def array_type(node: exp.Expr, item: PgType, scope: Scope) -> PgType:
    """The type of an array of these."""
    if item.name == "array":
        scope.refuse(node, "arrays of arrays are not known here")
    return array_of(item)
