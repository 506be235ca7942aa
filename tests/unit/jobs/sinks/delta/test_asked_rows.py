"""Rows of a Delta table that are asked for by their keys, read without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructType

from jobs.sinks.delta.delta_reader import stream
from jobs.sinks.delta.sink import _condition

COLUMNS = StructType().add("a", IntegerType()).add('q "q"', StringType()).add("c", BooleanType())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    path: Path = tmp_path_factory.mktemp("lake")
    ids = range(20_000)
    columns = {
        "a": pa.array(ids, pa.int32()),
        'q "q"': pa.array([f"o'{one % 7}" for one in ids]),
        "c": pa.array([one % 2 == 0 for one in ids]),
    }
    write_deltalake(path, pa.table(columns))
    return DeltaTable(path)


@pytest.mark.parametrize("count", [0, 1, 7, 10_000])
def test_as_many_keys_of_several_columns_as_are_asked_for(table: DeltaTable, count: int) -> None:
    there = [(one, f"o'{one % 7}", one % 2 == 0) for one in range(count)]
    others = [(one, "o'8", True) for one in range(count)]
    where = _condition(tuple(COLUMNS.names), [*there, *others])
    found = [
        row for part in stream(table, COLUMNS, where) for row in zip(*part.values(), strict=True)
    ]
    assert sorted(found) == there
