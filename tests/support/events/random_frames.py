"""Frames of random streams with rows of every type, written by one who knows only the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import pack
from typing import Any

from hypothesis import strategies as st

from cdc.events.values.encoder import UNAVAILABLE
from cdc.protocol.relation import Column, Relation, TypeInfo


def base(name: str) -> TypeInfo:
    return TypeInfo(1, "pg_catalog", name, "base", name)


ENUM = TypeInfo(1, "public", "mood", "enum", "enum")
INTEGERS = TypeInfo(1, "pg_catalog", "_int4", "array", "array", element=base("int4"))
SECONDS = [b"2024-02-29 12:34:56", b"0001-01-01 00:00:00", b"9999-12-31 23:59:59"]
ODD_TIMES = [b"infinity", b"-infinity", b"0044-03-15 01:02:03 BC", b"12345-01-02 00:00:00"]
# What PostgreSQL may send for each type, ordinary and odd.
TYPES: dict[str, tuple[TypeInfo, int, list[bytes]]] = {
    "int4": (base("int4"), -1, [b"0", b"-2147483648", b"7"]),
    "int8": (base("int8"), -1, [b"9223372036854775807", b"12"]),
    "bool": (base("bool"), -1, [b"t", b"f"]),
    "numeric": (base("numeric"), -1, [b"1.50", b"-0.0001", b"NaN", b"Infinity", b"-Infinity"]),
    "numeric(10,2)": (
        base("numeric"),
        (10 << 16 | 2) + 4,
        [b"1.50", b"-0.01", b"0.00", b"-1.28", b"1.27", b"-99999999.99", b"655.36"],
    ),
    "numeric(4,4)": (base("numeric"), (4 << 16 | 4) + 4, [b"0.1234", b"-0.5000", b"0.0000"]),
    "money": (base("money"), -1, [b"$1.50", b"-$1,234.56"]),
    "interval": (base("interval"), -1, [b"P1Y2M3DT4H5M6.78S", b"PT-0.5S", b"PT0S", b"infinity"]),
    "float8": (base("float8"), -1, [b"1e+20", b"-0", b"0.1", b"NaN", b"-Infinity", b"1.5e-07"]),
    "text": (base("text"), -1, [b"", b"plain", b'"quoted"', b"\\", b"a\nb", "é☃😀".encode()]),
    "varchar": (base("varchar"), -1, [UNAVAILABLE[1:-1], b"x"]),
    "jsonb": (base("jsonb"), -1, [b'{"a": [1, "b\\"c"]}', b"null", b'"\\ud800"']),
    "uuid": (base("uuid"), -1, [b"00000000-0000-0000-0000-000000000001"]),
    "enum": (ENUM, -1, [b"sad", "glück".encode()]),
    "date": (base("date"), -1, [b"2024-02-29", b"infinity", b"0044-03-15 BC", b"12345-01-01"]),
    "time": (base("time"), -1, [b"24:00:00", b"12:34:56.5"]),
    "time3": (base("time"), 3, [b"24:00:00", b"12:34:56.5", b"00:00:00.001"]),
    "timestamp3": (base("timestamp"), 3, [*SECONDS, *ODD_TIMES, b"1969-12-31 23:59:59.999"]),
    "timestamp": (
        base("timestamp"),
        -1,
        [*SECONDS, *ODD_TIMES, b"2024-02-29 12:34:56.1", SECONDS[0] + b".123456"],
    ),
    "timestamptz": (
        base("timestamptz"),
        -1,
        [t + f + b"+00" for t in SECONDS for f in (b"", b".1", b".123456")]
        + [b"infinity", b"0044-03-15 01:02:03.5+00 BC", b"12345-01-02 00:00:00+00"],
    ),
    "timestamptz0": (base("timestamptz"), 0, [t + b"+00" for t in SECONDS]),
    "timestamptz3": (
        base("timestamptz"),
        3,
        [t + f + b"+00" for t in SECONDS for f in (b"", b".12", b".123")],
    ),
    "bytea": (base("bytea"), -1, [b"\\x", b"\\x00ff10"]),
    "int4[]": (INTEGERS, -1, [b"{}", b"{1,2,NULL}", b"{{1,2},{3,4}}", b"[0:1]={1,2}"]),
}  # fmt: skip
TABLES: dict[int, tuple[str, str, tuple[str, ...]]] = {
    1: ("one", "d", ("int4",)),
    2: ("two", "d", ("text", "date")),
    3: ("keyless", "f", ()),
}


def relation(oid: int, types: Sequence[str]) -> Relation:
    name, identity, key = TABLES[oid]
    kinds = [*key, *types]
    columns = tuple(
        # Some are NOT NULL by now, and were not when their rows were written.
        Column(f'c{i} "%b"', TYPES[kind][0], TYPES[kind][1], i < len(key), i % 2 > 0)
        for i, kind in enumerate(kinds)
    )
    names = tuple(column.name for column in columns[: len(key)])
    return Relation(oid, "public", name, identity, columns, names)


def kinds_of(oid: int, types: Sequence[str]) -> list[str]:
    return [*TABLES[oid][2], *types]


class Story:
    """Frames of a random stream, written by one who knows only the protocol."""

    def __init__(self, draw: Any, types: Sequence[str]) -> None:
        self.draw = draw
        self.types = types
        self.frames: list[bytes] = []
        self.lsn = 1000
        self.open = False

    def frame(self, payload: bytes) -> None:
        self.lsn += 8
        self.frames.append(b"w" + pack(">QQq", self.lsn, self.lsn, 0) + payload)

    def describe(self, oid: int) -> None:
        self.frame(b"R" + pack(">I", oid) + b"public\0t\0d" + pack(">H", 0))

    def begin(self) -> None:
        self.commit = self.lsn + 10_000
        self.frame(b"B" + pack(">QqI", self.commit, self.lsn * 1000, self.lsn))

    def end(self) -> None:
        self.lsn = self.commit
        self.frame(b"C" + pack(">BQQq", 0, self.commit, self.commit + 8, self.lsn))

    def row(self, kinds: Sequence[str], key: int, new: bool) -> bytes:
        out = pack(">H", len(kinds))
        for i, kind in enumerate(kinds):
            values = [v for v in TYPES[kind][2] if len(v)]
            value = self.draw(
                st.sampled_from([*TYPES[kind][2], None, b"u"] if i >= key else values)
            )
            if value is None:
                out += b"n"
            elif value == b"u":
                out += b"u" if new else b"n"
            else:
                out += b"t" + pack(">I", len(value)) + value
        return out

    def key_image(self, kinds: Sequence[str], key: int) -> bytes:
        row = self.row(kinds[:key], key, False)
        return pack(">H", len(kinds)) + row[2:] + b"n" * (len(kinds) - key)

    def change(self, oid: int, op: str) -> None:
        kinds, key = kinds_of(oid, self.types), len(TABLES[oid][2])
        head = pack(">I", oid)
        if op == "insert":
            self.frame(b"I" + head + b"N" + self.row(kinds, key, False))
        elif op == "update":
            self.frame(b"U" + head + b"N" + self.row(kinds, key, True))
        elif op == "move" and key:
            old = b"K" + self.key_image(kinds, key)
            self.frame(b"U" + head + old + b"N" + self.row(kinds, key, True))
        elif op == "delete" and key:
            self.frame(b"D" + head + b"K" + self.key_image(kinds, key))
        elif op == "delete":
            self.frame(b"D" + head + b"O" + self.row(kinds, key, False))
        elif op == "truncate":
            self.frame(b"T" + pack(">IB", 1, 0) + head)
        elif op == "message":
            self.frame(b"M" + pack(">BQ", 1, self.lsn) + b"p\0" + pack(">I", 1) + b"x")


OPS = ["insert"] * 4 + ["update"] * 3 + ["delete"] * 2 + ["move", "truncate", "message"]


@st.composite
def streams(draw: st.DrawFn) -> tuple[tuple[str, ...], list[list[bytes]]]:
    """Column types, and a stream cut into reads."""
    types = tuple(draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=5)))
    story = Story(draw, types)
    for oid in TABLES:
        story.describe(oid)
    for _ in range(draw(st.integers(1, 5))):
        story.begin()
        if draw(st.integers(0, 5)) == 0:
            story.frame(b"O" + pack(">Q", 77) + b"origin\0")
        for _ in range(draw(st.integers(0, 12))):
            story.change(draw(st.sampled_from(sorted(TABLES))), draw(st.sampled_from(OPS)))
        story.end()
    cuts = sorted(draw(st.lists(st.integers(0, len(story.frames)), max_size=3)))
    edges = [0, *cuts, len(story.frames)]
    reads = [story.frames[a:b] for a, b in pairwise(edges)]
    return types, reads
