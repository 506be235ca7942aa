"""A view's place in a store, as ``jobs.run.views.view_keeper`` writes to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from cdc.config import View
from cdc.lsn import Position
from jobs.generations.view_state import lost_error
from jobs.run.builds.builder import Generation
from jobs.run.builds.generation_files import GenerationFiles
from jobs.run.process_parts import Parts
from jobs.run.views.histories import HistoryKeeper
from jobs.run.views.row_changes import Change
from jobs.run.views.view_keeper import KEYS_A_COMMIT, KEYS_A_TURN, ViewKeeper
from jobs.sinks.contract import Batch
from jobs.sinks.delta.history.table import DeltaHistory
from jobs.sinks.redis.layout import Shape
from jobs.sinks.row_errors import RowsError
from jobs.sinks.rows import RowSink
from jobs.sinks.stores import open_sink
from jobs.state.batch.stream_offsets import Progress
from jobs.state.values.document_sql import DocumentSql
from jobs.state.views.dirty_keys import NEVER
from jobs.state.views.rows_query import KEY, ROW
from jobs.state.views.store_rows import DocumentForm, RowForm
from jobs.state.views.view_columns import spark_columns
from jobs.state.views.view_generation import ViewGeneration


@dataclass(frozen=True, slots=True)
class StoredRows:
    """A ``jobs.run.views.row_changes.RowStore`` over a sink."""

    view: ViewGeneration
    generation_id: str
    """Tells batches of this state database from those of another one, for stores that note them."""
    sink: RowSink
    form: RowForm
    id: str
    """SQL of what errors of the store call a row."""

    @property
    def shown(self) -> Sequence[str]:
        return self.id, *self.form.expressions(ROW, KEY)

    def write(self, changes: Sequence[Change], progress: Progress) -> None:
        rows = self.form.rows(
            [change.shown[1:] for change in changes], Position(progress.lsn, progress.total)
        )
        batch = Batch(self.view.name, self.generation_id, progress.batch, len(changes))
        self.sink.write_rows(rows, batch)

    def refused(self, error: RowsError, changes: Sequence[Change]) -> dict[tuple[str, ...], str]:
        by_id = {change.shown[0]: change.key for change in changes}
        return {by_id[row.id]: row.cause for row in error.rows if row.id in by_id}

    def close(self) -> None:
        self.sink.close()


def open_keeper(
    parts: Parts, generation: Generation, view: View, sure_from: int = NEVER
) -> ViewKeeper | HistoryKeeper:
    """What keeps a generation in its store; ``sure_from`` as of ``ViewKeeper``. Raises what
    ``Sink.prepare`` raises, and ``ViewError`` where the store holds nothing of it."""
    apply, record, history = parts.config.apply, generation.record, generation.history
    store = parts.config.store(record.store)
    sink = open_sink(store, record.name, parts.spark, apply.retry_s, record.generation, view,
                     record.history, made_anew=True)  # fmt: skip
    if sink.prepare(spark_columns(generation.columns), generation.key):
        sink.close()
        files = GenerationFiles(parts, record.name, view)
        with closing(files.stored(record.store, record.history)) as stored:
            stored.drop(record.generation)  # so that the next try does not find it, and empty
        raise lost_error(record.name, record.store)
    if history is not None:
        assert isinstance(sink, DeltaHistory), "histories are kept in Delta"
        return HistoryKeeper(history, sink, apply.dlq_limit)
    assert isinstance(sink, RowSink), "each store takes finished rows"
    id_ = DocumentSql(generation.columns, generation.key, Shape()).id(KEY)
    form = _as_built(generation.form, sink, store.kind)
    rows = StoredRows(generation.kept, str(record.id), sink, form, id_)
    keys = KEYS_A_COMMIT if store.cadence_s else KEYS_A_TURN
    return ViewKeeper(generation.kept, rows, apply.dlq_limit, apply.whole_rows, keys, sure_from,
                      generation.feed)  # fmt: skip


def _as_built(form: RowForm, sink: RowSink, kind: str) -> RowForm:
    """Rows go on to be called in Redis what they were when the generation was made, however they
    are declared now."""
    if kind != "redis":
        return form
    from jobs.sinks.redis.sink import RedisSink

    assert isinstance(sink, RedisSink), "a store has sinks of its own"
    assert isinstance(form, DocumentForm), "Redis holds documents"
    return DocumentForm(replace(form.sql, shape=sink.shape))
