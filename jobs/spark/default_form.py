"""Records of the Kafka source, brought into the default form by Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.events.readers.records import EventReader

_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_DDL: Final = (
    "key binary, value binary, topic string, `partition` int, `offset` bigint, timestamp timestamp"
)


def in_default_form(reader: EventReader | None, records: DataFrame) -> DataFrame:
    """The same records; ``reader`` knows the table versions that are described by now. Records that
    need no reader are given as they are."""
    if reader is None:
        return records
    of_task = reader.for_tasks()

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _read(of_task, batch)

    return records.select(*_COLUMNS).mapInArrow(read, _DDL)


def _read(reader: EventReader, batch: pa.RecordBatch) -> pa.RecordBatch:
    names = ("topic", "key", "value", "offset")
    columns = (batch.column(name).to_pylist() for name in names)
    keys, values = list[bytes | None](), list[bytes | None]()
    for topic, key, value, offset in zip(*columns, strict=True):
        ((own_key, own_value, _),) = reader.raw(topic, [(key, value, offset)])
        keys.append(own_key)
        values.append(own_value)
    found = {
        "key": pa.array(keys, batch.schema.field("key").type),
        "value": pa.array(values, batch.schema.field("value").type),
    }
    arrays = [found.get(field.name, batch.column(field.name)) for field in batch.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
