"""The view's rows of some keys: its own SQL, the keys pushed down as far as they pass. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from views.maintain.passing import passes
from views.maintain.render import KEYS, Writer, quoted
from views.maintain.tree import Block, Query, SetOperation, Statement


def restricted(
    statement: Statement,
    read: Mapping[str, Sequence[str]],
    key: tuple[str, ...],
    positions: Sequence[int],
) -> str:
    """SELECT of the view's columns for the keys in ``KEYS``."""
    writer = Writer(statement, read)
    bounds = {
        position: f"ARRAY(SELECT {quoted(name)} FROM {KEYS})"
        for name, position in zip(key, positions, strict=True)
    }
    push(writer, statement.query, bounds)
    shown = ", ".join(f"v.{quoted(name)}" for name in statement.query.columns)
    conditions = [
        f"v.{quoted(name)} = ANY(ARRAY(SELECT {quoted(name)} FROM {KEYS}))" for name in key
    ]
    if len(key) > 1:
        same = " AND ".join(f"k.{quoted(name)} = v.{quoted(name)}" for name in key)
        conditions.append(f"EXISTS (SELECT FROM {KEYS} AS k WHERE {same})")
    return (
        f"SELECT {shown} FROM ({writer.query(statement.query)}) AS v "
        f"WHERE {' AND '.join(conditions)}"
    )


def push(writer: Writer, query: Query, bounds: Mapping[int, str]) -> None:
    """Ask the rows of FROM what the result will be asked, where that is the same."""
    if isinstance(query, SetOperation):
        if not query.limit:
            push(writer, query.left, bounds)
            push(writer, query.right, bounds)
    elif isinstance(query, Block):
        for position, values in bounds.items():
            node = query.outputs[position].node
            if passes(query, node) and not isinstance(node, exp.Null):
                found = writer.extra.setdefault(id(query), [])
                found.append(f"{writer.node(node)} = ANY({values})")
