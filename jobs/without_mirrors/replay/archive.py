"""A replay out of an archive: a view with ``history = "log"`` of the same table, which has changes
that Kafka has no more.

    changes     0 ──────────────── K ─────────── A ────────── end
    archive     ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
    Kafka                          ░░░░░░░░░░░░░░░░░░░░░░░░░░

What the archive has from the place on is written to the view while its stream is held. Then the
stream goes on where the archive ends, A, or where it was, if that is earlier. If Kafka begins, at
K, behind A, the changes in between are in neither, and nothing is written. Killed in between, it
has written rows that are right, under their own positions: it is to be run again.
"""

from __future__ import annotations

import time
import uuid

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.config import Config
from cdc.errors import LogError, UsageError, ViewError
from cdc.events.codes import DELETE, TRUNCATE
from cdc.kafka.broker import Broker, Offsets
from cdc.lsn import format_lsn
from jobs.generations.live_view_lock import live_held
from jobs.generations.topic_ids import refuse_recreated
from jobs.generations.view_state import Beginning, Replay, view_directory
from jobs.sinks.contract import (
    COMMIT_LSN,
    COMMITTED_AT,
    DELETED,
    OP,
    ORDINAL,
    UNCHANGED,
    Batch,
    Sink,
)
from jobs.sinks.delta.history.table import DeltaHistory
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.dead_letters.topic import waiting
from jobs.without_mirrors.regrouped_topics import refuse_regrouped
from jobs.without_mirrors.replay.checkpoint_rewind import finish_rewind
from jobs.without_mirrors.replay.replay import (
    Replayed,
    applied_offsets,
    begin_again,
    later,
    live_generation,
    state_of,
)
from jobs.without_mirrors.replay.start_position import AtLsn, AtOffset, AtTime, Place
from jobs.without_mirrors.replay.start_position import Beginning as FromBeginning
from views.spark.resolution import ResolvedView

_NO_COLUMNS = "cast(array() as array<string>)"


def replay_archive(
    config: Config,
    broker: Broker,
    view: ResolvedView,
    sink: Sink,
    archive: ResolvedView,
    archived: Sink,
    text: str,
    place: Place,
    number: int,
) -> Replayed:
    """Write to ``view`` what its ``archive`` has from ``place`` on, which was written as ``text``;
    both sinks are prepared, the view's for generation ``number``, which has to be live.

    Raises ``UsageError`` for an archive of other rows, ``ViewError`` for one that lacks changes,
    ``LogError`` where changes are neither in it nor in Kafka.
    """
    refuse_other_rows(view, archive)
    if not isinstance(archived, DeltaHistory):
        raise UsageError(
            f'view {archive.name} has no history = "log"', "name one with --archive that has"
        )
    ends = _archived(config, broker, archive, place)
    directory = view_directory(config.apply.state, config.source.name, view.name)
    with live_held(directory, config.apply.retry_s, number):
        state = state_of(directory, live_generation(directory, view.name))
        finish_rewind(state.checkpoint)
        applied = applied_offsets(state, view.definition)
        refuse_recreated(state, view.name, broker.topic_ids(list(applied)))
        oldest = broker.beginning_offsets(list(applied))
        starts = goes_on(applied, ends, oldest)
        if _is_behind(applied, oldest) and not isinstance(place, FromBeginning):
            raise UsageError(
                f"Kafka no longer holds what view {view.name} applies next",
                "write --from beginning, so that nothing is left out before that",
            )
        refuse_regrouped(broker, config.source.name, view.name, starts)
        count = _write(view, sink, changes_since(archived.changes(), place))
        if starts != applied:
            again = Replay(text, starts, later(state.replay(), applied), time.time())
            begin_again(broker, view.name, state, again)
        return Replayed(number, starts, applied, count)


def refuse_other_rows(view: ResolvedView, archive: ResolvedView) -> None:
    """Raise ``UsageError`` unless each row of ``view`` is one of the archive, and its columns are
    some of that one's. Pure."""
    kept = {(one.name, one.sql, one.source) for one in archive.outputs}
    lacking = [one.name for one in view.outputs if (one.name, one.sql, one.source) not in kept]
    if view.table.name != archive.table.name:
        said = f"reads {archive.table.name}, and {view.name} reads {view.table.name}"
    elif view.where != archive.where:
        said = f"has another WHERE than {view.name}"
    elif {*view.key} != {*archive.key}:
        said = f"has key ({', '.join(archive.key)}), and {view.name} ({', '.join(view.key)})"
    elif lacking:
        said = f"lacks {', '.join(lacking)} as {view.name} has it"
    else:
        return
    raise UsageError(
        f"view {archive.name} is no archive for {view.name}: it {said}",
        f"run `headwater view rebuild {view.name}`, which needs no archive",
    )


def goes_on(applied: Offsets, archived: Offsets, oldest: Offsets) -> Offsets:
    """Where the stream of a view that has ``applied`` so much goes on, once it has what is in the
    archive. Kafka begins at ``oldest``. Raises ``LogError`` for a gap. Pure."""
    found: Offsets = {}
    for topic, lows in oldest.items():
        for partition, low in lows.items():
            end = archived.get(topic, {}).get(partition, 0)
            at = min(end, applied.get(topic, {}).get(partition, 0))
            if end < low:
                raise LogError(
                    f"the archive ends at {topic}-{partition}-{end}, and Kafka begins at {low}: "
                    f"the {low - end} records in between are in neither",
                    "run `headwater view rebuild`, which needs no history",
                )
            found.setdefault(topic, {})[partition] = max(at, low)
    return found


def changes_since(changes: DataFrame, place: Place) -> DataFrame:
    """Those of an archive from a place on."""
    if isinstance(place, AtLsn):
        return changes.where(F.col(COMMIT_LSN) >= place.lsn)
    if isinstance(place, AtTime):
        return changes.where(F.col(COMMITTED_AT) >= F.timestamp_millis(F.lit(place.timestamp_ms)))
    return changes


def _archived(config: Config, broker: Broker, archive: ResolvedView, place: Place) -> Offsets:
    """The next offsets behind what the archive has for certain."""
    name, directory = (
        archive.name,
        view_directory(config.apply.state, config.source.name, archive.name),
    )
    live = live_generation(directory, name)
    state = state_of(directory, live)
    refuse_before(name, state.beginning(), live.live_s, place)
    if (letters := waiting(config, broker, name)).open:
        raise ViewError(
            f"the archive, view {name}, lacks {len(letters.open)} events that wait as dead letters",
            f"run `headwater dead-letters retry {name}` first",
        )
    return applied_offsets(state, archive.definition)


def refuse_before(name: str, beginning: Beginning | None, live_s: float, place: Place) -> None:
    """Raise ``UsageError`` for a place before an archive: rows that were deleted between the two
    are not in it. ``live_s``: since when it is live, seconds since 1970. Pure."""
    if isinstance(place, AtOffset):
        raise UsageError("an archive knows no offsets", "write --from beginning, an LSN or a time")
    if beginning is None:
        return
    before = isinstance(place, AtLsn) and place.lsn < beginning.upto
    if before or (isinstance(place, AtTime) and place.timestamp_ms < live_s * 1000):
        raise UsageError(
            f"the archive, view {name}, begins at LSN {format_lsn(beginning.upto)}",
            "write --from beginning to replay all that it has",
        )


def _is_behind(applied: Offsets, oldest: Offsets) -> bool:
    return any(
        applied.get(topic, {}).get(partition, 0) < low
        for topic, lows in oldest.items()
        for partition, low in lows.items()
    )


def _write(view: ResolvedView, sink: Sink, changes: DataFrame) -> int:
    """Give the sink changes: all of them, or the newest one of each key; how many these were."""
    gone = F.col(OP).isin(DELETE, TRUNCATE)
    columns = [
        F.col(f"`{one.name}`").cast(one.dataType).alias(one.name) for one in columns_of(view)
    ]
    rows = changes.where(F.col(COMMIT_LSN).isNotNull()).select(
        *columns,
        gone.alias(DELETED),
        COMMIT_LSN,
        ORDINAL,
        F.expr(_NO_COLUMNS).alias(UNCHANGED),
        COMMITTED_AT,
        # A TRUNCATE is there once for each row.
        F.when(gone, F.lit(DELETE)).otherwise(F.col(OP)).alias(OP),
    )
    if not view.definition.history:
        newest = F.max_by(F.struct(*rows.drop(OP).columns), F.struct(COMMIT_LSN, ORDINAL))
        key = [F.col(f"`{name}`") for name in view.key]
        rows = rows.groupBy(*key).agg(newest.alias("newest")).select("newest.*")
    rows = rows.persist()
    try:
        if count := rows.count():
            sink.apply(rows, Batch(view.name, str(uuid.uuid4()), 1, count))
        return count
    finally:
        rows.unpersist()
