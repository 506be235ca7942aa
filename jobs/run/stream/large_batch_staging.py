"""A large batch staged by Spark's tasks, and applied from there: no row is in the driver."""

from __future__ import annotations

import time

import structlog

from cdc.log_events import LogEvent
from jobs.run.process_parts import Parts
from jobs.run.stream.applied_batch import Applied
from jobs.run.stream.batches import Batches
from jobs.run.stream.stream import StreamBatch
from jobs.state.batch.staged_parts import stage_part
from jobs.state.batch.staging import RecordsNeededError

log = structlog.get_logger("apply")


def by_tasks(parts: Parts, batches: Batches, batch: StreamBatch) -> Applied | None:
    """Apply it; None if that was done before.

    Raises ``RecordsNeededError`` for a batch that is small, that the tasks of a cluster cannot
    stage as the state database is on this machine, or of which some records are not as all are.
    """
    if batch.large is None or not parts.reaches_tasks:
        raise RecordsNeededError
    began = time.monotonic()
    batches.drop_staged()
    answers = batch.large.each(stage_part(parts.server.dsn, *batches.staging))
    staged = time.monotonic()
    changes = batch.changes(batches.every_change_of)
    applied = batches.apply_staged(batch.begin, batch.end, answers, changes)
    if applied is not None:
        log.info(
            LogEvent.BATCH_STAGED,
            batch=applied.progress.batch,
            records=applied.records,
            tasks=len(answers),
            staging_s=round(staged - began, 3),
            seconds=round(time.monotonic() - began, 3),
        )
    return applied
