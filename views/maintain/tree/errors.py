"""How a view's SQL is refused: the place, what stands there, why, and what to write. Pure."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from cdc.errors import ViewError
from views.maintain.tree.parser import text
from views.parse.syntax_errors import place


def refuse(view: str, node: exp.Expr | None, reason: str, hint: str = "") -> NoReturn:
    """Raise ``ViewError`` that names the view and the place in its SQL."""
    if node is None:
        raise ViewError(f"views.{view}.sql: {reason}", hint)
    raise ViewError(f"views.{view}.sql{place(node)}: {excerpt(node)}: {reason}", hint)


def excerpt(node: exp.Expr) -> str:
    """The node's SQL, cut to one short line."""
    said = " ".join(text(node).split())
    return said if len(said) <= 60 else said[:57] + "..."
