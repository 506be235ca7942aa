"""A decimal of more digits than any double, with ``decimal.handling.mode = double``: infinite in a
format that has no other numbers, row by row and by column alike."""

from __future__ import annotations

from dataclasses import replace
from struct import pack

import pytest

from cdc.columnar.formats.snapshot import snapshot_encoder
from cdc.events.envelope import SourceContext
from cdc.events.form import OURS, Format
from cdc.protocol.relation import Column, Relation
from tests.support.events.random_frames import base
from tests.unit.cdc.columnar.test_formats import Registry
from tests.unit.cdc.events.keys.test_exact_keys import NOW_US, cell, fed

LARGE = [b"1" + b"0" * 309, b"2" + b"0" * 600]
TABLE = Relation(
    1,
    "public",
    "t",
    "d",
    (Column("k", base("int4"), -1, True, False), Column("v", base("numeric"), -1, False)),
    ("k",),
)


def stream(*values: bytes) -> list[bytes]:
    commit, lsn, frames = 4096, 8, []
    columns = b"\1k\0" + pack(">Ii", 23, -1) + b"\0v\0" + pack(">Ii", 1700, -1)
    payloads = [b"R" + pack(">I", 1) + b"public\0t\0d" + pack(">H", 2) + columns]
    payloads.append(b"B" + pack(">QqI", commit, 1000, 7))
    for number, value in enumerate(values):
        row = pack(">H", 2) + cell(b"%d" % number) + cell(value)
        payloads.append(b"I" + pack(">I", 1) + b"N" + row)
    payloads.append(b"C" + pack(">BQQq", 0, commit, commit + 8, 1000))
    for payload in payloads:
        lsn += 8
        frames.append(b"w" + pack(">QQq", lsn, lsn, 0) + payload)
    return frames


@pytest.mark.parametrize("least", [1, 10**6], ids=["by column", "row by row"])
@pytest.mark.parametrize("name", ["avro", "protobuf"])
@pytest.mark.parametrize("large", LARGE, ids=len)
def test_the_stream_goes_on(name: Format, least: int, large: bytes) -> None:
    form = replace(OURS, decimals="double", schemas=True, format=name)
    assert fed(TABLE, form, stream(large, b"-" + large, b"1.5"), least).take().count


@pytest.mark.parametrize("name", ["avro", "protobuf"])
@pytest.mark.parametrize("large", LARGE, ids=len)
def test_a_snapshot_has_it_as_infinite(name: Format, large: bytes) -> None:
    form, registry = replace(OURS, decimals="double", schemas=True, format=name), Registry()
    encoder = snapshot_encoder(TABLE, SourceContext("1", "s", "db", form, registry), 64, NOW_US)
    rows = b"1\t%b\n2\t-%b\n3\t1.5\n" % (large, large)
    _, values = encoder.encode(rows, 3)
    found = [registry.read(value)["after"]["v"] for value in values]
    assert found == ["Infinity", "-Infinity", 1.5]
