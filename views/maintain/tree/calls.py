"""Functions and VALUES in FROM: what they are called, and their columns. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.maintain.tree.errors import refuse

_OUT_NAMES = {
    **dict.fromkeys(("json_each", "jsonb_each", "json_each_text", "jsonb_each_text"),
                    ("key", "value")),
    **dict.fromkeys(("json_array_elements", "jsonb_array_elements", "json_array_elements_text",
                     "jsonb_array_elements_text"), ("value",)),
}  # fmt: skip
"""Functions whose columns have names of their own."""


def call_of(view: str, node: exp.Expr) -> exp.Expr:
    """The function or VALUES of an item of FROM."""
    inner = node.this if isinstance(node, exp.Lateral) else node
    call = inner.this if isinstance(inner, exp.Table) else inner
    if isinstance(inner, exp.Table) and inner.args.get("rows_from"):
        refuse(view, node, "ROWS FROM is not known here", "write the functions one by one")
    if not isinstance(call, exp.Anonymous | exp.Unnest | exp.Values):
        refuse(view, node, "nothing that can be read in FROM is known by this name")
    return call


def name_of(node: exp.Expr, call: exp.Expr) -> str:
    """What the rest of the SQL calls it."""
    return node.alias or (call.name if isinstance(call, exp.Anonymous) else "") or "unnest"


def columns(node: exp.Expr, call: exp.Expr) -> tuple[tuple[str, ...], str]:
    """The names of the columns, and that of WITH ORDINALITY."""
    names = renamed(node) or renamed(call)
    offset = _ordinality(node, call)
    if isinstance(call, exp.Values):
        width = len(call.expressions[0].expressions)
        natural = tuple(f"column{number + 1}" for number in range(width))
    elif isinstance(call, exp.Unnest):
        several = len(call.expressions) > 1
        natural = ("unnest",) * len(call.expressions) if several else (name_of(node, call),)
        if isinstance(offset, exp.Identifier):
            names = (*names, offset.name)
    else:
        natural = _OUT_NAMES.get(call.name.lower(), (name_of(node, call),))
        if any(isinstance(part, exp.ColumnDef) for part in columns_of(node)):
            natural = names
    if offset:
        natural = (*natural, "ordinality")
    made = (*names, *natural[len(names) :])
    return made, made[-1] if offset else ""


def _ordinality(node: exp.Expr, call: exp.Expr) -> object:
    inner = node.this if isinstance(node, exp.Lateral) else node
    found = inner.args.get("ordinality") or node.args.get("ordinality")
    return found or call.args.get("offset")


def bare(call: exp.Expr) -> exp.Expr:
    """The call without its alias."""
    made = call.copy()
    for name in ("alias", "offset"):
        if made.args.get(name):
            made.set(name, None)
    return made


def columns_of(node: exp.Expr) -> list[exp.Expr]:
    """The list of columns behind an alias."""
    alias = node.args.get("alias")
    return list(alias.args.get("columns") or []) if isinstance(alias, exp.TableAlias) else []


def renamed(node: exp.Expr) -> tuple[str, ...]:
    """The names in the list of columns behind an alias."""
    return tuple(part.name for part in columns_of(node))


def ordering(node: exp.Expr) -> list[exp.Expr]:
    """The items of ORDER BY."""
    order = node.args.get("order")
    return list(order.expressions) if order is not None else []


def limits(node: exp.Expr) -> list[exp.Expr]:
    """LIMIT, FETCH and OFFSET."""
    parts = (node.args.get(name) for name in ("limit", "fetch", "offset"))
    return [part for part in parts if part is not None]
