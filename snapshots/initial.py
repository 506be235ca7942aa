"""The initial snapshot: the tables exactly as they were when the slot began, before the stream.

    begin(running) ─▶ slot + exported snapshot at L ─▶ COPY each table ─▶ all acknowledged

Each table is read in a transaction of its own that imports the snapshot, so no table is locked
against DDL longer than it takes to read that one. A crash leaves ``running`` and the slot: the
next run drops that slot and reads everything again at a new L. Topics then hold rows of both runs;
a truncate at the new L stands between them, so nothing deleted in the meantime survives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns

from cdc.config import Source
from cdc.events.envelope import SourceContext
from cdc.kafka.bulk import BulkProducer
from cdc.source.catalog import load_types
from cdc.source.postgres import Connection, connect
from cdc.source.selection import Table
from snapshots import state
from snapshots.plan import plan_table
from snapshots.publish import SnapshotPublisher
from snapshots.read import in_snapshot, read_blocks


@dataclass(frozen=True, slots=True)
class InitialSnapshot:
    """What a run needs.

    ``dirty`` maps topics that already hold records to their number of partitions. Without
    ``with_rows`` only the tables' descriptions are published. ``on_rows`` hears of each batch,
    ``on_table`` of each table that is read, with all its rows.
    """

    source: Source
    context: SourceContext
    snapshot_id: int
    consistent_point: int
    snapshot_name: str
    dirty: Mapping[str, int]
    with_rows: bool = True
    on_rows: Callable[[Table, int], None] = lambda _table, _rows: None
    on_table: Callable[[Table, int], None] = lambda _table, _rows: None


def publish_snapshot(
    run: InitialSnapshot, tables: Sequence[Table], producer: BulkProducer, control: Connection
) -> dict[str, int]:
    """Read all tables and publish them; the rows by table, all of them acknowledged.

    ``control`` records finished tables. Raises what reading and publishing raise; nothing has to
    be undone then, the state says ``running``.
    """
    publisher = SnapshotPublisher(producer, run.context, run.consistent_point)
    counts: dict[str, int] = {}
    with connect(run.source.dsn, application_name="headwater snapshot") as reader:
        for table in tables:
            counts[table.label] = _publish_table(run, table, publisher, reader)
            run.on_table(table, counts[table.label])
            state.record_table(
                control, run.snapshot_id, table.schema, table.name, counts[table.label]
            )
    publisher.finish()
    return counts


def _publish_table(
    run: InitialSnapshot, table: Table, publisher: SnapshotPublisher, reader: Connection
) -> int:
    rows = 0
    with in_snapshot(reader, run.snapshot_name):
        plan = plan_table(reader, table, load_types(reader), run.source)
        now_us = time_ns() // 1000
        publisher.start_table(plan.relation, plan.topic, now_us)
        if not run.with_rows:
            return 0
        if plan.topic in run.dirty:
            publisher.clear(plan.relation, plan.topic, run.dirty[plan.topic], now_us)
        for block in read_blocks(reader, plan.statement, f"reading {table.label}"):
            rows += block.rows
            publisher.publish(block)
            run.on_rows(table, block.rows)
    return rows
