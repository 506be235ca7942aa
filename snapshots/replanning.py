"""At the start of a round: what is recorded of each table, compared with what it is now.

nothing recorded, or another shape, ──▶ begun: chunks are made, behind a truncate if the topic
a file gone or rewritten, no key         holds rows already
a new partition                     ──▶ its chunks are added
else                                ──▶ goes on
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from cdc.kafka.bulk_producer import BulkProducer
from cdc.source.postgres import Connection
from cdc.source.selection import Table
from cdc.source.types import load_types
from snapshots.job import Job
from snapshots.ledger import Chunk, Ledger, TableRecord
from snapshots.plan import TablePlan, chunk_blocks, estimated_rows, plan_table
from snapshots.publisher import SnapshotPublisher


def prepare(
    job: Job,
    ledger: Ledger,
    producer: BulkProducer,
    lsn: int,
    pin: Connection,
    tables: Sequence[Table],
) -> dict[str, TablePlan]:
    """Bring the ledger in step with the tables; their plans, by label.

    ``pin`` is in the snapshot of ``lsn``. Descriptions and truncates are in Kafka when it returns.
    """
    with pin.transaction(force_rollback=True):  # a savepoint: no lock on a table outlives it
        types = load_types(pin)
        plans = [plan_table(pin, t, types, job.source, job.topic_of(t), job.bounds) for t in tables]
    recorded, chunks = ledger.tables(), defaultdict[str, list[Chunk]](list)
    for chunk in ledger.chunks():
        chunks[chunk.label].append(chunk)
    known = {plan.label for plan in plans}
    ledger.forget([table for label, table in recorded.items() if label not in known])
    publisher = SnapshotPublisher(producer, job.context, lsn)
    for plan in plans:
        record = recorded.get(plan.label)
        old = chunks[plan.label]
        if record is None or record.shape is None or not _goes_on(plan, record, old):
            used = record is not None and record.shape is not None
            used = used or not job.dirty.isdisjoint((plan.label, plan.topic))
            _begin(job, ledger, publisher, plan, used)
        else:
            _grow(job, ledger, plan, old)
    publisher.finish()
    return {plan.label: plan for plan in plans}


def blocks_of(job: Job, plan: TablePlan) -> int:
    """The size of the table's chunks."""
    share = job.workers
    return chunk_blocks(plan.leaves, share, job.chunk_mb, job.rows_s / share, job.bytes_s / share)


def _goes_on(plan: TablePlan, record: TableRecord, old: Sequence[Chunk]) -> bool:
    """Whether what is recorded still holds for the table."""
    if record.shape != plan.shape:
        return False
    if not plan.relation.key:
        return record.finished
    files = {leaf.oid: leaf.file for leaf in plan.leaves}
    return all(files.get(chunk.leaf) == chunk.file for chunk in old)


def _begin(
    job: Job, ledger: Ledger, publisher: SnapshotPublisher, plan: TablePlan, used: bool
) -> None:
    now_us = time.time_ns() // 1000
    publisher.describe(plan.relation, now_us)
    publisher.flush()  # a view may read the topic, and take events of no known version for poison
    if used:
        publisher.clear(plan.relation, plan.topic, job.partitions[plan.topic], now_us)
    chunks = plan.chunks(blocks_of(job, plan))
    publisher.flush()
    relation, rows = plan.relation, estimated_rows(plan.leaves)
    record = TableRecord(relation.schema, relation.table, plan.shape, rows, plan.topic, 0, False)
    ledger.plan(record, chunks)


def _grow(job: Job, ledger: Ledger, plan: TablePlan, old: Sequence[Chunk]) -> None:
    """Chunks for partitions that came since the table was begun."""
    if not plan.relation.key:
        return  # finished, and as of one LSN
    have = {chunk.leaf for chunk in old}
    new = plan._replace(leaves=tuple(leaf for leaf in plan.leaves if leaf.oid not in have))
    last = max((chunk.number for chunk in old), default=0)
    ledger.add_chunks(new.chunks(blocks_of(job, plan), last + 1))
