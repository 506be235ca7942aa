"""Spools: what was written is read from any row on; what is not whole is none."""

from __future__ import annotations

import random
from pathlib import Path

from headwater.api.spool.spool_file import (
    SpoolReader,
    SpoolWriter,
    remove,
    remove_unfinished,
    spools_in,
)
from tests.unit.headwater.conditions.orders import ORDERS

ID = "0123456789abcdef"


def written(folder: Path, rows: list[tuple[bytes, bytes]], spool_id: str = ID) -> SpoolWriter:
    writer = SpoolWriter(folder, spool_id)
    writer.begin(8, ORDERS)
    writer.rows([b"void"], [b"void"])
    writer.begin(16, ORDERS)  # DDL came
    for at in range(0, len(rows), 7):
        part = rows[at : at + 7]
        writer.rows([key or None for key, _ in part], [value for _, value in part])
    return writer


def test_rows_are_read_from_any_row_on(tmp_path: Path) -> None:
    for seed in range(40):
        chance = random.Random(seed)
        count, spool_id = chance.randint(0, 60), f"{seed:016x}"
        rows = [
            (chance.randbytes(chance.randint(0, 9)), chance.randbytes(chance.randint(0, 900)))
            for _ in range(count)
        ]
        made = written(tmp_path, rows, spool_id).finish("public.o", "topic", (1, 2), 5.0, "r")
        assert (made.rows, made.lsn) == (count, 16)
        begin = chance.randint(0, count)
        found, row = [], begin
        with SpoolReader(tmp_path, made) as reader:
            while more := reader.read(row, chance.choice([1, 600, 5_000])):
                found += more
                row += len(more)
        assert found == rows[begin:]


def test_what_is_not_whole_is_removed_and_the_rest_is_found_again(tmp_path: Path) -> None:
    whole = written(tmp_path, [(b"k", b"v")]).finish("public.o", "t", (0,), 5.0, "r")
    written(tmp_path, [(b"k", b"v")], "f" * 16)  # killed here
    remove_unfinished(tmp_path)
    assert spools_in(tmp_path) == [whole]
    assert len(list(tmp_path.iterdir())) == 3
    with SpoolReader(tmp_path, whole) as reader:
        remove(tmp_path, ID)
        assert reader.read(0, 10) == [(b"k", b"v")], "who reads it reads on"
    assert list(tmp_path.iterdir()) == []
