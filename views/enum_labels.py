"""Enums: which texts stand for their values, as far as the source could be asked. Pure.

What the log says of a table has no labels, for they are added without a new version of it. So a
view is checked against them when it is declared, and never while it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from sqlglot import exp

from views.spark.expressions.terms import Scope, Term
from views.table_versions import TableColumn, TableVersion
from views.types import UNKNOWN

_NAMED = 10


def labelled(table: TableVersion, labels: Mapping[int, Sequence[str]]) -> TableVersion:
    """The table with the labels of its enums and arrays of them, by ``attnum``."""
    columns = tuple(
        column._replace(labels=tuple(labels.get(column.attnum or 0, ())))
        for column in table.columns
    )
    return replace(table, columns=columns)


def check_labels(terms: Iterable[Term], beside: exp.Expr, node: exp.Expr, scope: Scope) -> None:
    """Refuse literals that take the type of the enum ``beside`` them and are no labels of that."""
    enums = list(_enums(beside, scope))
    if not enums or not all(column.labels for column in enums):
        return
    known = list(dict.fromkeys(label for column in enums for label in column.labels))
    for term in terms:
        if term.type == UNKNOWN and term.text is not None and term.text not in known:
            names = " or ".join(dict.fromkeys(column.name for column in enums))
            reason = f"{term.text!r} is no label of the enum {names}"
            scope.refuse(node, reason, _choice(term.text, known))


def _enums(node: exp.Expr, scope: Scope) -> Iterator[TableColumn]:
    """The columns below a node that are enums, or arrays of them."""
    for column in node.find_all(exp.Column):
        table = scope.tables.get(column.table or next(iter(scope.tables)))
        held = table.column(column.name) if table else None
        if held is not None and "enum" in (held.type.name, held.type.element):
            yield held


def _choice(text: str, labels: Sequence[str]) -> str:
    """The labels in words, those that are most like the text first."""

    def unlike(label: str) -> float:
        return -SequenceMatcher(None, text.lower(), label.lower()).ratio()

    named = ", ".join(repr(label) for label in sorted(labels, key=unlike)[:_NAMED])
    more = len(labels) - _NAMED
    return f"choose from {named}" + (f", and {more} more" if more > 0 else "")
