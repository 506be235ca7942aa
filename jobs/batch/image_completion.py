"""What Spark leaves of a batch to the driver: images of rare events. Pure.

Values that an update left out are put in from earlier images of its key, and images are cut out of
events that have another form than capture's.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.events.codes import SNAPSHOT
from cdc.kafka.partition_reader import FetchedRecord
from jobs.batch.folded_rows import NO_EVENT, SCHEMA
from jobs.batch.images import Image, filled, images, read_row
from jobs.batch.plan import RANK, TEXT


def finished(rows: pa.Table) -> pa.Table:
    """Rows of ``jobs.batch.plan.folded`` as ``jobs.batch.folded_rows.SCHEMA`` has them."""
    is_rare = pc.or_(pc.greater(rows.column(RANK), 1), pc.is_valid(rows.column(TEXT)))
    if not pc.any(is_rare).as_py():
        return rows.select(SCHEMA.names).cast(SCHEMA)
    keyed = pc.is_valid(rows.column("key"))
    partial = pc.or_(is_rare, pc.and_(keyed, pc.is_valid(rows.column("unchanged"))))
    plain = rows.filter(pc.invert(partial)).select(SCHEMA.names).cast(SCHEMA)
    rare = [_row(one) for one in rows.filter(partial).to_pylist()]
    rare.sort(key=_in_order)
    done = [_filled(list(group)) for _, group in groupby(rare, key=_key)]
    return pa.concat_tables([plain, pa.Table.from_pylist(done, SCHEMA)])


def no_text(record: FetchedRecord) -> dict[str, Any]:
    """The row of a record that is not UTF-8."""
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    return {**row, **place, "records": 1, "cause": NO_EVENT}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """With images cut out of the event, if there is one."""
    if (text := row[TEXT]) is not None:
        row["before"], row["after"] = images(text)
    return row


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    alone = "" if row["key"] is not None else f"{row['partition']}-{row['offset']}"
    return row["topic"], row["key"] or "", row["schema_id"], alone


def _in_order(row: dict[str, Any]) -> tuple[Any, ...]:
    return *_key(row), row[RANK]


def _filled(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The last row of a key, filled from the earlier ones behind it."""
    last = rows[0]
    image = filled(Image(last["after"], last["unchanged"] or ()), map(_earlier, rows[1:]))
    unchanged = list(image.unchanged) or None
    return {**last, "after": image.after, "unchanged": unchanged, "read_lsn": image.read_lsn}


def _earlier(row: dict[str, Any]) -> Image:
    if row["op"] == SNAPSHOT:
        return read_row(row["after"], row["commit_lsn"])
    return Image(row["after"], row["unchanged"] or ())
