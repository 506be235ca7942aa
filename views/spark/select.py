"""SELECT of a maintained view, whole or for some of its keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from views.spark.clauses import Clause
from views.spark.dialects import Dialect
from views.spark.keys.joins import Join

if TYPE_CHECKING:
    from views.spark.view import MaintainedView

KEYS = "__keys"
"""What the relation of keys is called in the SQL."""


def selecting(
    view: MaintainedView, dialect: Dialect, relations: Mapping[str, str], keys: str | None = None
) -> str:
    """The view's rows; of the keys in the relation ``keys`` only, if that is given.

    ``relations`` are what to read for each occurrence, as SQL of the dialect: a name, or a
    subquery in parentheses. ``keys`` has the key's columns under the view's names, never NULL.
    """
    body, words = view.body, dialect.words
    conditions = [words(part) for part in body.where]
    wanted = [] if keys is None else _wanted(view, dialect)
    lines = [
        "SELECT "
        + ", ".join(
            f"{words(part)} AS {dialect.name(output.name)}"
            for part, output in zip(view.shown, view.outputs, strict=True)
        ),
        "FROM " + from_clause(body.joins, dialect, relations),
    ]
    called = f"{keys} AS {dialect.name(KEYS)}"
    if wanted and dialect.semi_joins:
        lines.append(f"LEFT SEMI JOIN {called} ON {' AND '.join(wanted)}")
    elif wanted:
        conditions.append(f"EXISTS (SELECT FROM {called} WHERE {' AND '.join(wanted)})")
    lines += where_clause(conditions)
    if body.group is not None:
        carried = view.carried if dialect.semi_joins else ()
        lines.append("GROUP BY " + ", ".join([*(words(part) for part in body.group), *carried]))
    if view.having is not None:
        lines.append(f"HAVING {words(view.having)}")
    return "\n".join(lines)


def _wanted(view: MaintainedView, dialect: Dialect) -> list[str]:
    return [
        f"{dialect.words(made)} = {dialect.name(KEYS)}.{dialect.name(name)}"
        for name, made in zip(view.key, view.keys, strict=True)
    ]


def from_clause(joins: Sequence[Join], dialect: Dialect, relations: Mapping[str, str]) -> str:
    """FROM without its word, a line for each join."""
    lines: list[str] = []
    for join in joins:
        called = f"{relations[join.alias]} AS {dialect.name(join.alias)}"
        if not lines:
            lines.append(called)
            continue
        word = "LEFT JOIN" if join.left else "JOIN"
        on = " AND ".join(f"({dialect.words(part)})" for part in join.on)
        lines.append(f"{word} {called} ON {on}")
    return "\n".join(lines)


def where_clause(conditions: Iterable[str]) -> list[str]:
    """WHERE as a line, or no line."""
    parts = [f"({condition})" for condition in conditions]
    return [f"WHERE {' AND '.join(parts)}"] if parts else []


def keys_clause(keys: Sequence[Clause], names: Sequence[str], dialect: Dialect) -> str:
    """SELECT DISTINCT of a key's expressions under the view's names."""
    shown = (
        f"{dialect.words(made)} AS {dialect.name(name)}"
        for made, name in zip(keys, names, strict=True)
    )
    return f"SELECT DISTINCT {', '.join(shown)}"
