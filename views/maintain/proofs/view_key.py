"""The key that a view declares: where its columns are, and that it is one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdc.errors import ViewError
from views.maintain.proofs.key_proof import KeyProof
from views.maintain.proofs.not_null import NotNull
from views.maintain.tree.errors import refuse
from views.maintain.tree.origin import of_query
from views.maintain.tree.tree import Query, Statement

_SYSTEM: Final = ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid")
"""Columns that every table of PostgreSQL has by itself."""


def key_positions(view: str, query: Query, key: Sequence[str]) -> tuple[int, ...]:
    """Where the key's columns stand among a view's. Raises ``ViewError`` for those of none."""
    names = query.columns
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        reason = f"two columns are called {sorted(twice)[0]!r}"
        refuse(view, query.node, reason, "name one of them with AS")
    if not key:
        raise ViewError(
            f"views.{view}.key: the view has no key, so its rows cannot be identified",
            "name the columns that identify a row, or GROUP BY them and count",
        )
    for column in key:
        if column in _SYSTEM:
            raise ViewError(
                f"views.{view}.key: no table of PostgreSQL can have a column {column!r} of its own",
                f"rename it in the view: {column} AS {column}_no",
            )
        if column not in names:
            raise ViewError(
                f"views.{view}.key: {column!r} is not a column of the view",
                f"choose from {', '.join(names)}",
            )
    return tuple(names.index(column) for column in key)


def prove(statement: Statement, key: Sequence[str], positions: Sequence[int]) -> list[str]:
    """Raise ``ViewError`` unless the key is one; return what the proof takes for granted."""
    view, query = statement.view, statement.query
    said = f"views.{view}.key: ({', '.join(key)})"
    proof = KeyProof(statement)
    for column, position in zip(key, positions, strict=True):
        base = of_query(query, position)
        if base is not None and not base.equal_image:
            raise ViewError(
                f"views.{view}.key: {column!r} is {base.type}, whose equal values can have "
                "different text",
                f"make it text or a number of one form: {column}::text",
            )
    if not proof.unique(query, positions):
        raise ViewError(
            f"{said} is not unique in the view: there may be {proof.missing or 'several rows'}",
            "select the columns that make it unique and name them in key, or GROUP BY the key",
        )
    not_null = NotNull(statement)
    for column, position in zip(key, positions, strict=True):
        if not not_null.column(query, position):
            raise ViewError(
                f"views.{view}.key: {column!r} can be NULL, and a row without a key cannot be "
                "stored",
                f"add WHERE … IS NOT NULL, or make it coalesce({column}, …)",
            )
    return [*proof.assumes, *not_null.assumes]
