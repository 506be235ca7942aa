"""A table that a view reads and nobody captures: where it stands, and what may be meant. Pure."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.definition import ViewDefinition
from views.parse.statement import refused

_NAMED = 10


def uncaptured(
    definition: ViewDefinition,
    table: str,
    captured: Collection[str],
    way: str = "add it to source.tables",
    why: str = "",
) -> ViewError:
    """That ``table`` is none of the ``captured`` ones (``schema.table``, as it is).

    ``way`` is how it becomes one, ``why`` what else there is to say of it.
    """
    node = next(one.node for one in definition.occurrences if one.table_name == table)
    read = node.this if isinstance(node, exp.Join) else node
    hint = f"{_meant(read, table, captured)}{way}"
    return refused(definition.name, read, f"table {table} is not captured{why}", hint)


def _meant(read: exp.Table, table: str, captured: Collection[str]) -> str:
    bare = table.removeprefix(f"{read.db or 'public'}.")
    elsewhere = sorted(name for name in captured if name.endswith(f".{bare}"))
    if elsewhere:
        named = " or ".join(map(_spelled, elsewhere))
        return f"write {named}; or " if not read.db else _question(elsewhere)
    names = {name.lower(): name for name in captured}
    close = get_close_matches(table.lower(), names, 1, 0.75)
    if close:
        return _question([names[close[0]]])
    known = ", ".join(sorted(captured)[:_NAMED])
    more = len(captured) - _NAMED
    return (
        f"use a captured table ({known}{f' and {more} more' if more > 0 else ''}), or "
        if known
        else ""
    )


def _question(names: list[str]) -> str:
    return f"did you mean {' or '.join(map(_spelled, names))}? Otherwise "


def _spelled(name: str) -> str:
    """A table as SQL has to write it: quoted where it would be folded or read as something else."""
    parts = name.split(".", 1)
    quoted = (exp.to_identifier(part, quoted=part != part.lower() or None) for part in parts)
    return ".".join(part.sql("postgres") for part in quoted)
