"""A view of one table: its rows are the last changes of the table's, folded and projected."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cdc.config import Config
from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.event_reader import form_of
from cdc.lsn import Position
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import Batch, Sink
from jobs.spark.checkpoint import batch_offsets, committed_ago_s, is_few, is_started
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.batch_part import Part
from jobs.without_mirrors.column_names import Names
from jobs.without_mirrors.dead_letters.bisection import Poison, isolate
from jobs.without_mirrors.dead_letters.parking import Parking
from jobs.without_mirrors.dead_letters.topic import LetterBox
from jobs.without_mirrors.earlier_changes import EarlierChanges, Places
from jobs.without_mirrors.evaluation import Applier, Model, evaluate
from jobs.without_mirrors.incompatible_schema import no_longer, refuse_rewritten
from jobs.without_mirrors.late_snapshot_rows import ForgottenDeletes, Returning
from jobs.without_mirrors.late_snapshot_values import apply_records
from jobs.without_mirrors.schemas_topic import Versions
from jobs.without_mirrors.snapshot_rows import read_before
from jobs.without_mirrors.table_descriptions import Descriptions, with_versions
from views.parse.definition import ViewDefinition
from views.spark.lost_columns import refuse_lost_columns
from views.spark.resolution import resolve
from views.table_versions import TableVersion

_OUTAGE_S: Final = 3_600.0
"""After so long without a batch a store may soon forget what was deleted before: it does so after a
day, and a snapshot's rows may come hours behind their deletes."""
_REMEMBERED_S: Final = 20 * 3_600.0
"""So long a store remembers a delete for certain, however long a batch takes."""


class FoldedKeeper:
    """A ``jobs.without_mirrors.keeper.Keeper``. The store's own guard, each row's position, is all
    its memory."""

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        definition: ViewDefinition,
        state: ViewState,
        sink: Sink,
        broker: Broker,
    ) -> None:
        self._spark, self._config, self._definition = spark, config, definition
        self._state, self._sink, self._broker = state, sink, broker
        self._topic = config.source.own_topic(definition.schema, definition.table)
        self._model: Model | None = None
        self._applier: Applier | None = None
        self._earlier = EarlierChanges(self._records_between)
        self._descriptions = Descriptions(broker, config.source.name, definition)
        self._names = Names(broker, config.source.own_topic, definition, state)
        limit = config.apply.dlq_limit
        self._parking = Parking(
            definition.name, LetterBox(config, definition.name, state), limit, self._every
        )

    def read(self) -> StructType:
        self._model = self._read_model()
        return self._model.columns

    def open(self, created: bool, begin: Offsets) -> None:
        replay = self._state.replay()
        again = replay is not None and replay.goes_on(begin)
        returning = self._returning(again)
        self._applier = Applier(
            self._definition.name, self._state, self._sink, created, returning, self._every
        )
        self._parking.open(begin, replay.until if replay and again else {})

    def apply(self, records: DataFrame, number: int, end: Offsets) -> tuple[Batch, Account]:
        applier = self._applier
        assert applier is not None, "open comes first"
        assert self._model is not None
        if self._descriptions.changed():
            self._learn()
        view, earlier = self._model.view, partial(self._changes_before, number)
        begin = self._state.batch_begin(number)
        name, source = self._definition.name, self._config.source.name

        def attempt(flowing: DataFrame) -> tuple[Batch, Account]:
            if is_few(begin, end):
                flowing = flowing.coalesce(1)
            return apply_records(view, flowing, number, applier, evaluated, earlier)

        def evaluated(some: DataFrame, part: Part | None) -> tuple[DataFrame, Account]:
            return with_versions(name, source, partial(self._evaluate, some, part), self._learn)

        def is_news(_topic: str, position: Position, deletes: bool) -> bool:
            return applier.is_news(position, deletes)

        applied = self._parking.through(records, end, attempt, self._isolate, is_news)
        self._earlier.rest()
        return applied

    @property
    def _every(self) -> bool:
        return bool(self._definition.history)

    @property
    def parked(self) -> int:
        return self._parking.parked

    def close(self) -> None:
        self._earlier.release()
        self._parking.close()
        self._broker.close()  # a batch that ends when its view has ended may have connected again

    def _read_model(self) -> Model:
        definition = self._definition
        ((table, versions),) = self._names.under(self._descriptions.read()).items()
        newest = list(versions.values())[-1]
        try:
            view = resolve(definition, newest)
            refuse_lost_columns(form_of(self._config), view)
            model = Model(view, versions, self._every)
        except ViewError as error:
            was = self._last_fit(versions)
            if was is None:
                raise
            name = newest.name
            raise no_longer(definition.name, error.message, {name: was}, {name: newest}) from None
        if (began := self._names.began_with(table, versions)) is not None:
            refuse_rewritten(model.view, began)
        self._names.remember()
        return model

    def _last_fit(self, versions: Versions) -> TableVersion | None:
        """The newest version of the table that the view can be run over."""
        for version in reversed(versions.values()):
            with suppress(ViewError):
                return resolve(self._definition, version).table
        return None

    def _returning(self, again: bool) -> Returning:
        """Delta keeps nothing of a row that was deleted, other stores do for a day, and of one that
        has expired none does. What comes ``again``, or after an outage, may be a row whose delete
        any store has forgotten."""
        checkpoint = self._state.checkpoint
        ago_s = committed_ago_s(checkpoint, time.time()) if is_started(checkpoint) else None
        if ago_s is not None and (again or ago_s > _OUTAGE_S):
            ago_s = math.inf
        delta = self._config.store(self._definition.store).kind == "delta"
        declared = self._config.views.get(self._definition.name)
        expires = declared is not None and declared.ttl_s > 0
        lasts_s = 0.0 if delta or again else _REMEMBERED_S
        if declared is not None and expires:
            lasts_s = min(lasts_s, declared.ttl_s)
        fresh_s = max(0.0, lasts_s - self._config.snapshot.max_age_s)  # from its LSN to its reading
        forgotten = ForgottenDeletes(lasts_s, ago_s)
        return Returning(self._definition.key, self._rows_before, forgotten, fresh_s, expires)

    def _rows_before(self, number: int) -> DataFrame:
        """What the topic's changes before a batch amount to, as far as Kafka has them."""
        assert self._model is not None
        return self._model.rows(self._changes_before(number))

    def _changes_before(self, number: int) -> DataFrame:
        at = batch_offsets(self._state.checkpoint, number - 1)[self._topic] if number else {}
        return self._parking.history(self._earlier.before(at))

    def _records_between(self, begin: Places, end: Places) -> DataFrame:
        beginning, config = self._state.beginning(), self._config
        return read_before(
            self._spark, config, self._broker, self._topic, beginning, end, since=begin
        )

    def _isolate(self, flowing: DataFrame, error: BaseException, at_most: int) -> list[Poison]:
        self._learn()  # else events of a version that is described since would be poison, too
        assert self._model is not None
        return isolate(self._model, flowing, error, at_most)

    def _evaluate(self, records: DataFrame, part: Part | None) -> tuple[DataFrame, Account]:
        assert self._model is not None
        self._names.refuse_parked(self._parking.letters, records)
        return evaluate(self._model, records, part)

    def _learn(self) -> bool:
        """Read the table's versions again; the view may have gained columns. Whether there are new
        ones."""
        assert self._model is not None
        before = self._model
        model = self._read_model()
        if list(model.versions.items()) == list(before.versions.items()):
            return False
        self._model = model
        if model.columns != before.columns:
            created = self._sink.prepare(model.columns, self._definition.key)
            self._state.refuse_lost(self._definition, created)
        return True
