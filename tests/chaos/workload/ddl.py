"""Changes of a table's columns, with rows before and after in the same transaction."""

from __future__ import annotations

import random
from itertools import count
from typing import Final

from tests.chaos.workload.actions import (
    MILD,
    Action,
    Changes,
    Connection,
    Row,
    _ask,
    huge,
    insert,
    mass,
    shift,
    swap,
    truncate,
    update,
)
from tests.chaos.workload.outbox import emit
from tests.chaos.workload.tables import TOKENS, Table, noted_column, quoted
from tests.chaos.workload.truth import Change

_TYPES: Final = ("bigint", "text", "int", "numeric(20,0)", "varchar(40)")
_names = count(1)
"""A name is never used twice: rows that were not written since keep values under old names."""


def alter(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Add, drop, rename or retype a column, also one that views name; of a table that ``grows``,
    add one."""
    if not table.altered:
        return
    conn.execute(f"lock table {table.sql} in access exclusive mode".replace("%%", "%").encode())
    update(conn, rng, table, made)
    added, noted = _added(conn, table), noted_column(conn, table)
    choice = rng.random()
    if noted is not None and rng.random() < 0.25:
        name = f"noted{next(_names)}"
        if choice < 0.7:
            _run(conn, table, f"rename column {noted} to {name}")
        else:
            _run(conn, table, f"drop column {noted}")
            _run(conn, table, f"add column {name} {rng.choice(_TYPES)}")
        made += _touched(_everything(conn, table, f"{name} = '{rng.randrange(100)}',"), table)
    elif choice < 0.4 or not added or table.grows:
        kind = rng.choice(["int", "text", "bigint"])
        name = f"x{next(_names)}"
        _run(conn, table, f"add column {name} {kind}")
        made += _touched(_everything(conn, table, f"{name} = '{rng.randrange(100)}',"), table)
    elif choice < 0.6:
        _run(conn, table, f"drop column {quoted(rng.choice(added))}")
    elif choice < 0.8:
        _run(conn, table, f"rename column {quoted(rng.choice(added))} to x{next(_names)}")
        made += _touched(_everything(conn, table, ""), table)
    else:
        kind = rng.choice(_TYPES)
        _run(conn, table, f"alter column extra type {kind} using extra::text::{kind}")
    insert(conn, rng, table, made)


def _run(conn: Connection, table: Table, change: str) -> None:
    conn.execute(f"alter table {table.sql} {change}".replace("%%", "%").encode())


def _everything(conn: Connection, table: Table, sets: str) -> list[Row]:
    """All rows are written once more: the log has their values under the new names."""
    return _ask(
        conn, table, f"update {table.sql} set {sets} token = nextval(%s), n = n + 1", TOKENS
    )


def _touched(rows: list[Row], table: Table) -> Changes:
    return [Change("u", table.label, row.key, row.token) for row in rows]


def _added(conn: Connection, table: Table) -> list[str]:
    found = conn.execute(
        "select a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped"
        " and a.attname ~ '^x[0-9]+$' order by 1",
        (table.schema, table.name),
    ).fetchall()
    return [name for (name,) in found]


WILD: Final[dict[Action, float]] = {
    **MILD,
    swap: 1.5,
    shift: 0.3,
    truncate: 0.25,
    mass: 0.12,
    alter: 0.6,
    emit: 1.5,
    huge: 0.6,
}
"""What goes on while things break."""
