"""Random changes of the tables of ``grammar``, in batches that touch several rows twice. Pure."""

from __future__ import annotations

from random import Random

from tests.maintain.grammar import KEYS, TABLES


def first_rows(random: Random) -> list[str]:
    """What the tables hold before the view is built."""
    return [_insert(random, name) for name in TABLES for _ in range(random.randrange(3, 8))]


def batch(random: Random) -> list[str]:
    """The statements of one micro-batch."""
    return [_change(random) for _ in range(random.choice((1, 1, 2, 3, 5)))]


def _change(random: Random) -> str:
    name = random.choice(tuple(TABLES))
    drawn = random.random()
    if drawn < 0.35:
        return _insert(random, name)
    if drawn < 0.55:
        return f"delete from {name} where {_some(random, name)}"
    if drawn < 0.6:
        return f"delete from {name}"
    if drawn < 0.7 and len(KEYS[name]) == 1 and name != "c":
        key = KEYS[name][0]
        old, new = random.randrange(8), random.randrange(8)
        return (
            f"update {name} set {key} = {new} where {key} = {old} "
            f"and not exists (select from {name} where {key} = {new})"
        )
    free = [column for column in TABLES[name] if column[0] not in KEYS[name]]
    column = random.choice(free)
    return f"update {name} set {column[0]} = {_value(random, column)} where {_some(random, name)}"


def _some(random: Random, name: str) -> str:
    column = random.choice([column for column in TABLES[name] if column[1] == "int"])
    return f"{column[0]} in ({random.randrange(6)}, {random.randrange(6)})"


def _value(random: Random, column: tuple[str, str, bool]) -> str:
    if column[2] and random.random() < 0.25:
        return "null"
    if column[1] == "text":
        return f"'{random.choice('uvw')}'"
    return str(random.randrange(4 if column[2] else 6))


def _insert(random: Random, name: str) -> str:
    values = ", ".join(_value(random, column) for column in TABLES[name])
    return f"insert into {name} values ({values}) on conflict do nothing"
