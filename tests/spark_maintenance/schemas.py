"""Random tables and their rows: columns of many types, odd values, NULLs often; each from a seed.

Values are as PostgreSQL writes them: numbers, booleans and lists, and texts of all else. What no
store of Python's values can hold is left out: dates before year 1 and after 9999.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from views.table_versions import TableColumn, TableVersion
from views.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    PgType,
    array_of,
    numeric,
)

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]
_INT2, _UUID, _JSONB = PgType("int2"), PgType("uuid"), PgType("jsonb")
_INTEGERS = (_INT2, INT4, INT4, INT8)
_NUMERICS = (numeric(8, 2), numeric(5, 0), numeric(12, 4), numeric(3, 3), numeric(9, 1))
COLUMNS: dict[str, tuple[PgType, ...]] = {
    "a": _INTEGERS,
    "b": (INT4, INT8),
    "n": _NUMERICS,
    "m": _NUMERICS,
    "t": (TEXT,),
    "u": (TEXT,),
    "f": (BOOL,),
    "d": (DATE,),
    "s": (TIMESTAMP,),
    "z": (TIMESTAMPTZ,),
    "g": (_UUID,),
    "r": (FLOAT8,),
    "j": (_JSONB,),
    "l": (array_of(TEXT),),
    "k": (array_of(INT4),),
}
"""The types that a column of a name may have."""
_KEY_NAMES = ("id", "no", "at")
_KEYS = (INT4, INT4, INT4, _INT2, INT8, TEXT, _UUID, DATE, TIMESTAMP, TIMESTAMPTZ, numeric(8, 2))
_NULLS = 0.2
_BITS = {"int2": 15, "int4": 31, "int8": 63}
VALUES: dict[str, tuple[Any, ...]] = {
    "text": (
        "u", "v", "é", "", " ", "  u ", "12", "A-b-C", "it's \"q\"", "a\\b", "%_", "null",
        "two\nlines", "\U0001f600 Ü", "é, x",
    ),
    "bool": (True, False),
    "date": ("2024-02-29", "1999-12-31", "1969-12-31", "0001-02-01", "9999-12-01", "1582-10-10"),
    "timestamp": (
        "2024-02-29 12:34:56.789012", "1969-12-31 23:59:59.5", "2021-01-03 00:00:00",
        "0001-02-01 00:00:00", "9999-12-01 23:59:59.999999",
    ),
    "timestamptz": (
        "2024-02-29 12:34:56.789012+00", "1969-12-31 23:59:59.5+00", "2021-01-03 00:00:00+00",
        "1883-11-18 12:00:00+00", "9000-12-01 23:59:59.999999+00",
    ),
    "uuid": (
        "6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f01", "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff", "6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f02",
    ),
    "float8": (0.1, -2.5, 1.5, 2.5, 0.0, 1e15, 1e-300, 1.7976931348623157e308, "NaN", "-Infinity"),
    "jsonb": (
        '{"n": 3, "t": "u"}', '{"n": 1.50, "o": [1.0, {"t": "v"}]}', '{"n": null}', "null", "[]",
        '{"": 1, "t": "it\'s \\"é\\""}', '{"n": -99999.99, "t": ""}', '[1, {"t": "w"}]', '"u"',
        '{"n": "12", "o": {"t": "\\\\ \\n"}, "t": true}',
    ),
    "text[]": (["u"], ["v", None, "é, x"], [], ['"', "", "a\\b"]),
    "int4[]": ([1, 2], [], [None, -1], [2**31 - 1, 0, -(2**31)]),
}  # fmt: skip


def tables(random: Random) -> dict[str, TableVersion]:
    """Two to four tables by name, with keys of one to three columns."""
    return {f"t{i}": table(random, f"t{i}") for i in range(random.randint(2, 4))}


def table(random: Random, name: str) -> TableVersion:
    key = _KEY_NAMES[: random.choice((1, 1, 1, 2, 2, 3))]
    kinds = [random.choice(_KEYS) for _ in key]
    columns = [TableColumn(name, kind, False) for name, kind in zip(key, kinds, strict=True)]
    named = random.sample(sorted(COLUMNS), random.randint(3, 12))
    columns += [TableColumn(name, random.choice(COLUMNS[name])) for name in named]
    return TableVersion(f"{name:>016}", "public", name, tuple(columns), key)


def row(random: Random, table: TableVersion) -> Row:
    return {column.name: _value(random, column) for column in table.columns}


def _value(random: Random, column: TableColumn) -> Any:
    if column.nullable and random.random() < _NULLS:
        return None
    kind = column.type
    if kind.name in _BITS:
        limit = 1 << _BITS[kind.name]
        odd = column.nullable and random.random() < 0.15
        return random.choice((limit - 1, -limit, -1)) if odd else random.randrange(8)
    if kind.name == "numeric":
        return _numeric(random, kind)
    return random.choice(VALUES[str(kind)])


def _numeric(random: Random, kind: PgType) -> str:
    """With the digits that PostgreSQL writes; the largest there are, zero and a few others."""
    largest = 10**kind.precision - 1
    one: int = 10**kind.scale
    units = random.choice((0, largest, -largest, min(one, largest), -min(5 * one // 2, largest), 5))
    digits = f"{abs(units):0{kind.scale + 1}}"
    whole, part = digits[: len(digits) - kind.scale], digits[len(digits) - kind.scale :]
    return f"{'-' if units < 0 else ''}{whole}{'.' if part else ''}{part}"


def rows(random: Random, table: TableVersion) -> Rows:
    """Some rows to begin with, by key."""
    made = [row(random, table) for _ in range(random.choice((3, 12, 24)))]
    return {tuple(new[name] for name in table.key): new for new in made}


def change(random: Random, table: TableVersion, rows: Rows) -> None:
    """Insert, replace, update one column of, move or delete a random row."""
    new = row(random, table)
    key = tuple(new[name] for name in table.key)
    kind = random.random()
    if rows and kind < 0.5:
        key = random.choice(sorted(rows))
        old = rows[key]
        if kind < 0.15:
            del rows[key]
        else:
            name = random.choice(table.columns).name
            del rows[key]
            old = {**old, name: new[name]}
            rows[tuple(old[name] for name in table.key)] = old
    else:
        rows[key] = new


def transaction(random: Random, tables: Sequence[TableVersion], rows: dict[str, Rows]) -> int:
    """Change some rows of some tables, by name; how many times."""
    changes = random.randint(1, 10)
    for _ in range(changes):
        table = random.choice(tables)
        change(random, table, rows[table.name])
    return changes
