"""Calls of functions: their names, and which of them aggregate. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from views.function_names import AGGREGATES


def name(node: exp.Expr) -> str:
    """The name of a function, in small letters; nothing for what is none."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentTime):
        return node.sql_names()[0].lower()
    if isinstance(node, exp.Localtime | exp.Localtimestamp):
        return node.sql_names()[0].lower()
    return ""


def aggregates(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates of an expression, not those that are computed over a window."""
    return list(_aggregates(node))


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Select):
        return
    if isinstance(node, exp.Window):
        inner: exp.Expr = node.this
        while isinstance(inner, exp.Filter | exp.WithinGroup):
            inner = inner.this
        for part in (*inner.iter_expressions(), *_window_parts(node)):
            yield from _aggregates(part)
        return
    if name(node) in AGGREGATES or isinstance(node, exp.JSONObjectAgg | exp.WithinGroup):
        yield node
        return
    for part in node.iter_expressions():
        yield from _aggregates(part)


def _window_parts(node: exp.Window) -> list[exp.Expr]:
    order = node.args.get("order")
    return [*(node.args.get("partition_by") or []), *([order] if order is not None else [])]
