"""Rows of a DataFrame to Python, in Arrow batches, one at a time on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame


def stream_columns(rows: DataFrame) -> Iterator[dict[str, list[Any]]]:
    """``rows`` as lists by column name, batch by batch.

    Spark's own ``toLocalIterator`` pickles row by row. Here executors hand over whole Arrow
    batches as bytes, so the driver holds a few of them at a time and converts by column.
    """
    names = rows.columns
    plain = rows.toDF(*(f"c{i}" for i in range(len(names))))  # mapInArrow takes no backticks
    for row in plain.mapInArrow(_packed, "batch binary").toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row.batch) as reader:
            for batch in reader:
                yield {
                    name: python_values(column)
                    for name, column in zip(names, batch.columns, strict=True)
                }


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        packed = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], ["batch"])


def python_values(column: pa.Array) -> list[Any]:
    """Python's own values; a time outside its years 1 to 9999 becomes ISO text."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_scalar(value) for value in column]


def _scalar(value: pa.Scalar) -> Any:
    if isinstance(value, pa.ListScalar):
        return None if value.values is None else [_scalar(element) for element in value.values]
    if isinstance(value, pa.StructScalar):
        return {n: _scalar(of) for n, of in value.items()} if value.is_valid else None
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return _iso(value)


def _iso(value: pa.Scalar) -> str:
    """The form that events have: ``+12024-02-29T12:00:00.000000Z``, a year of 0 to 9999 without
    a sign."""
    zone = "Z" if getattr(value.type, "tz", None) else ""
    naive = value.cast(pa.timestamp("us")) if zone else value
    text = str(pc.cast(naive, pa.string())).replace(" ", "T")
    return ("" if text.startswith("-") or text[4] == "-" else "+") + text + zone
