"""Random changes of the tables of ``grammar``, in batches that touch several rows twice. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.sql_maintenance.group_grammar import ALL_KEYS, ALL_TABLES
from tests.sql_maintenance.relations import TABLES

_NUMBERS = ("0", "0.00", "1", "1.0", "1.50", "2.125", "-3", "-1.5", "1e3", "7.00001")
_NONE = ("'NaN'", "'Infinity'", "'-Infinity'")


def first_rows(random: Random, groups: bool = False) -> list[str]:
    """What the tables hold before the view is built; ``groups``: with the one of its grammar."""
    tables = ALL_TABLES if groups else TABLES
    return [_insert(random, name) for name in tables for _ in range(random.randrange(4, 12))]


def batch(random: Random, tables: Sequence[str]) -> list[str]:
    """The statements of one micro-batch, of some of the tables."""
    return [_change(random, tables) for _ in range(random.choice((1, 2, 2, 3, 5, 8)))]


def _change(random: Random, tables: Sequence[str]) -> str:
    name = random.choice(tables)
    drawn = random.random()
    if drawn < 0.35:
        return _insert(random, name)
    if drawn < 0.47:
        return f"delete from {name} where {_some(random, name)}"
    if drawn < 0.48:
        return f"delete from {name}"
    if drawn < 0.58 and name in ("a", "b", "e"):
        old, new = random.randrange(7), random.randrange(7)
        return (
            f"update {name} set id = {new} where id = {old} "
            f"and not exists (select from {name} where id = {new})"
        )
    free = [column for column in ALL_TABLES[name] if column[0] not in ALL_KEYS[name]]
    column = random.choice(free)
    return f"update {name} set {column[0]} = {_value(random, column)} where {_some(random, name)}"


def _some(random: Random, name: str) -> str:
    column = random.choice([column for column in ALL_TABLES[name] if column[1] == "int"])
    return f"{column[0]} in ({random.randrange(5)}, {random.randrange(5)})"


def _value(random: Random, column: tuple[str, str, bool]) -> str:
    if column[2] and random.random() < 0.15:
        return "null"
    if column[1] == "numeric":
        return random.choice(_NONE if random.random() < 0.08 else _NUMBERS)
    if column[1] == "cents":
        return f"{random.randrange(-200, 900) / 100}"
    if column[1] == "bool":
        return random.choice(("true", "false"))
    if column[1] == "text":
        return f"'{random.choice('uvw' if column[2] else 'uvwxyz')}'"
    return str(random.randrange(4) if column[2] else random.randrange(7))


def _insert(random: Random, name: str) -> str:
    values = ", ".join(_value(random, column) for column in ALL_TABLES[name])
    key = ", ".join(ALL_KEYS[name])
    free = [column[0] for column in ALL_TABLES[name] if column[0] not in ALL_KEYS[name]]
    put = ", ".join(f"{column} = excluded.{column}" for column in free)
    return f"insert into {name} values ({values}) on conflict ({key}) do update set {put}"
