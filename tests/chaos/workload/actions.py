"""What a client does inside a transaction, and which changes it knows to have made by that.

Every statement returns the rows it wrote, in the order in which it wrote them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import psycopg

from tests.chaos.workload.tables import BULK, BY_LABEL, TABLES, TOKENS, Table, quoted
from tests.chaos.workload.truth import Change, key_text

Connection = psycopg.Connection[tuple[Any, ...]]
Changes = list[Change]
NUMBERS: Final = 60
"""Rows have numbers from 1 to this: few, so that clients meet at the same keys."""
BULK_ROWS: Final = 20_000
_HUGE: Final = 4_300
"""Times 32 bytes."""


class Row(NamedTuple):
    """A row as far as it decides its event."""

    number: int
    key: str | None
    token: int


def _columns(table: Table) -> str:
    """What is asked of every row: its number, its token and its key."""
    key = ", ".join(f"{quoted(name)}::text, pg_typeof({quoted(name)})::text" for name in table.key)
    return f"{table.id}, token" + (f", {key}" if key else "")


def _rows(table: Table, answer: Sequence[tuple[Any, ...]]) -> list[Row]:
    rows = []
    for number, token, *rest in answer:
        values = [
            int(text) if kind in ("integer", "bigint") else text
            for text, kind in zip(rest[::2], rest[1::2], strict=True)
        ]
        rows.append(Row(number, key_text(dict(zip(table.key, values, strict=True))), token))
    return rows


def _ask(conn: Connection, table: Table, statement: str, *values: object) -> list[Row]:
    text = f"{statement} returning {_columns(table)}"
    return _rows(table, conn.execute(text.encode(), values).fetchall())


def _lock(conn: Connection, table: Table, numbers: Sequence[int]) -> dict[int, list[Row]]:
    """The rows of these numbers, locked: nobody else moves or deletes them meanwhile."""
    text = (
        f"select {_columns(table)} from {table.sql} where {table.id} = any(%s)"
        f" order by {table.id} for update"
    )
    found: dict[int, list[Row]] = {}
    for row in _rows(table, conn.execute(text.encode(), (list(numbers),)).fetchall()):
        found.setdefault(row.number, []).append(row)
    return found


def _some(rng: random.Random, most: int) -> list[int]:
    return rng.sample(range(1, NUMBERS + 1), rng.randint(1, most))


def _large(table: Table, rng: random.Random) -> dict[str, str]:
    """Large values are out of line above 2 kB; some rows have none, some small ones."""
    size = rng.choice([0, 3, 70, 100, 300])
    return dict.fromkeys(table.large, f"repeat(md5(random()::text), {size})")


def insert(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Some rows in one statement, whatever else there is."""
    _insert(conn, rng, table, _some(rng, 6), made)


def _insert(
    conn: Connection, rng: random.Random, table: Table, numbers: Sequence[int], made: Changes
) -> None:
    filled = {**table.numbered, **table.on_insert, "token": f"nextval('{TOKENS}')", "n": "0"}
    filled |= _large(table, rng)
    names = ", ".join(quoted(name) for name in filled)
    values = ", ".join(text.format(i="i") for text in filled.values()).replace("%", "%%")
    careless = rng.random() < 0.1  # meets a duplicate key: the transaction fails
    conflict = "" if careless or not table.key else " on conflict do nothing"
    statement = (
        f"insert into {table.sql} ({names}) select {values} from unnest(%s::int[]) i{conflict}"
    )
    rows = _ask(conn, table, statement, list(numbers))
    made += [Change("c", table.label, row.key, row.token) for row in rows]


def copy(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """COPY: many rows of one WAL record, which share an LSN."""
    if list(table.numbered) != ["id"] or table.on_insert:
        return
    count = rng.randint(2, 40)
    begin = 1_000 + rng.randrange(100_000) * 50
    tokens = conn.execute(
        f"select nextval('{TOKENS}') from generate_series(1, %s)".encode(), (count,)
    ).fetchall()
    with conn.cursor() as cursor:
        statement = f"copy {table.sql} (id, token, n) from stdin".replace("%%", "%")
        with cursor.copy(statement.encode()) as stream:
            for i, (token,) in enumerate(tokens):
                stream.write_row((begin + i, token, 0))
    for i, (token,) in enumerate(tokens):
        key = key_text({"id": begin + i}) if table.key else None
        made.append(Change("c", table.label, key, token))


def update(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Some rows; large columns are touched seldom, so that most are not in the log."""
    _update(conn, rng, table, _some(rng, 5), made)


def _update(
    conn: Connection, rng: random.Random, table: Table, numbers: Sequence[int], made: Changes
) -> None:
    sets = ["token = nextval(%s)", "n = n + 1"]
    if rng.random() < 0.5:
        sets.append(f"extra = '{rng.randrange(1000)}'")
    if table.large and rng.random() < 0.3:
        name, value = rng.choice(list(_large(table, rng).items()))
        sets.append(f"{name} = {value}")
    statement = f"update {table.sql} set {', '.join(sets)} where {table.id} = any(%s)"
    rows = _ask(conn, table, statement, TOKENS, list(numbers))
    made += [Change("u", table.label, row.key, row.token) for row in rows]


def huge(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """A value that is too large for Kafka in some seeds; not where each later event of the row
    would hold it again."""
    if table.large and not table.full:
        name = rng.choice(table.large)
        statement = (
            f"update {table.sql} set token = nextval(%s), n = n + 1,"
            f" {name} = repeat(md5(random()::text), {_HUGE}) where {table.id} = %s"
        )
        rows = _ask(conn, table, statement, TOKENS, rng.randint(1, NUMBERS))
        made += [Change("u", table.label, row.key, row.token) for row in rows]


def delete(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Some rows."""
    _delete(conn, table, _some(rng, 3), made)


def _delete(conn: Connection, table: Table, numbers: Sequence[int], made: Changes) -> None:
    statement = f"delete from {table.sql} where {table.id} = any(%s)"
    made += [_deleted(table, row) for row in _ask(conn, table, statement, list(numbers))]


def _deleted(table: Table, row: Row) -> Change:
    return Change("d", table.label, row.key, row.token if table.full else None)


def _set(
    conn: Connection, table: Table, number: int, sets: dict[str, str], made: Changes
) -> list[Row]:
    """Update what may be keys of one row: a changed key is a delete and a create."""
    before = _lock(conn, table, [number]).get(number, [])
    if len(before) != 1:
        return []  # none, or rows that cannot be told apart
    assigned = ", ".join(f"{quoted(name)} = {value}" for name, value in sets.items())
    statement = (
        f"update {table.sql} set {assigned.replace('%', '%%')}, token = nextval(%s), n = n + 1"
        " where token = %s"
    )
    rows = _ask(conn, table, statement, TOKENS, before[0].token)
    for row in rows:
        if row.key == before[0].key:
            made.append(Change("u", table.label, row.key, row.token))
        else:
            made.append(_deleted(table, before[0]))
            made.append(Change("c", table.label, row.key, row.token))
    return rows


def _numbered(table: Table, number: int) -> dict[str, str]:
    return {name: text.format(i=f"({number})") for name, text in table.numbered.items()}


def move(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """A row gets another key, or another partition."""
    number = rng.randint(1, NUMBERS)
    if "region" in table.on_insert and rng.random() < 0.6:
        _set(conn, table, number, {"region": "(region + 1) % 4"}, made)
    else:
        _set(conn, table, number, _numbered(table, rng.randint(1, NUMBERS)), made)


def swap(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Two rows exchange their keys."""
    one, other = rng.sample(range(1, NUMBERS + 1), 2)
    spare = -rng.randint(1, 1_000_000)
    if _set(conn, table, one, _numbered(table, spare), made):
        _set(conn, table, other, _numbered(table, one), made)
        _set(conn, table, spare, _numbered(table, other), made)


def shift(conn: Connection, _rng: random.Random, table: Table, made: Changes) -> None:
    """``set id = id + 1`` on all rows, by way of numbers that are free: two key moves a row."""
    if list(table.numbered) != ["id"] or table.key != ("id",):
        return
    conn.execute(f"lock table {table.sql} in share row exclusive mode".encode())
    _delete(conn, table, [NUMBERS + 1], made)
    before = _lock(conn, table, range(1, NUMBERS + 1))
    held = {row.number: row for rows in before.values() for row in rows}
    for step, where in ((-1_000_000, "id between 1 and %s"), (1_000_001, "id < -999000")):
        statement = (
            f"update {table.sql} set id = id + {step}, token = nextval('{TOKENS}'), n = n + 1"
            f" where {where}"
        )
        values = (NUMBERS,) if "%s" in where else ()
        moved = _ask(conn, table, statement, *values)
        for row in moved:
            made.append(_deleted(table, held[row.number - step]))
            made.append(Change("c", table.label, row.key, row.token))
        held = {row.number: row for row in moved}


def replace(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Keys are deleted and inserted again in one transaction."""
    _delete(conn, table, _some(rng, 4), made)
    insert(conn, rng, table, made)


def message(conn: Connection, rng: random.Random, _table: Table, made: Changes) -> None:
    """A logical message that is part of the transaction."""
    content = f"m{rng.getrandbits(64):x}"
    conn.execute("select pg_logical_emit_message(true, 'chaos', %s)", (content,))
    made.append(Change("m", "chaos", None, content))


def truncate(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """One table or two, with what refers to them."""
    tables = {table.label, *table.truncated_with}
    if rng.random() < 0.4:
        other = rng.choice(TABLES)
        tables |= {other.label, *other.truncated_with}
    names = ", ".join(BY_LABEL[label].sql for label in sorted(tables))
    conn.execute(f"truncate {names} cascade".replace("%%", "%").encode())
    made += [Change("t", label) for label in sorted(tables)]


def mass(conn: Connection, rng: random.Random, table: Table, made: Changes) -> None:
    """Hundreds of rows by one statement: long plain stretches, which capture reads by column."""
    first = 1_000_000 + rng.randrange(1_000_000)
    numbers = range(first, first + rng.randint(100, 700))
    _insert(conn, rng, table, numbers, made)
    if rng.random() < 0.6:
        _update(conn, rng, table, numbers, made)
    if rng.random() < 0.8:
        kept = rng.choice([1, 3, len(numbers)])
        _delete(conn, table, [n for n in numbers if n % kept == 0], made)


def bulk(conn: Connection, _rng: random.Random, _table: Table, made: Changes) -> None:
    """A large transaction: all rows of a table are replaced."""
    _remember(made, "d", conn.execute(f"delete from {BULK.sql} returning id, token".encode()))
    statement = (
        f"insert into {BULK.sql} (id, token, n) select i, nextval('{TOKENS}'), 0"
        f" from generate_series(1, {BULK_ROWS}) i returning id, token"
    )
    _remember(made, "c", conn.execute(statement.encode()))


def _remember(made: Changes, op: str, answer: psycopg.Cursor[tuple[Any, ...]]) -> None:
    for number, token in answer.fetchall():
        made.append(Change(op, BULK.label, f'{{"id":{number}}}', token if op == "c" else None))


Action = Callable[[Connection, random.Random, Table, Changes], None]
MILD: Final[dict[Action, float]] = {
    insert: 6,
    update: 8,
    delete: 2.5,
    move: 3,
    replace: 2,
    copy: 0.5,
    message: 0.7,
}
"""What may go on while a snapshot is taken, with how often it does."""
