"""A view of several rows: kept over mirrors of its tables, in the folder of its generation."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.config import Config
from cdc.errors import ViewError
from cdc.events.parked import Letter
from cdc.kafka.broker import Broker, Offsets
from cdc.lsn import Position
from cdc.topics import table_topic
from jobs.account import Account
from jobs.changed import no_longer
from jobs.columns import columns_of
from jobs.described import described, newest
from jobs.faults import POISON, translate
from jobs.isolating import Poison, last_events
from jobs.letters import LetterBox
from jobs.loading import read_topics
from jobs.mirrors.attempts import Attempts, is_begun, read_attempts, write_attempts
from jobs.mirrors.maintainer import Maintainer
from jobs.mirrors.mirror import Mirror
from jobs.mirrors.models import (
    account_of,
    deletions,
    first_rows,
    folded,
    models_of,
    nothing,
    open_mirrors,
)
from jobs.mirrors.poisoned import poison_of
from jobs.mirrors.queries import forget_relations
from jobs.mirrors.reached import left_to_do, refuse_lost, refuse_older
from jobs.mirrors.reading import apart, cached, is_large, last_records, with_records
from jobs.mirrors.returned import without_returned
from jobs.mirrors.rows import ParkedRows, typed_keys
from jobs.mirrors.tables import check_kept, remember, remembered
from jobs.naming import Names
from jobs.offsets import is_few
from jobs.owners import without
from jobs.parking import Parking
from jobs.session import session_beside
from jobs.sinks import COMMIT_LSN, DELETED, Batch, Sink
from jobs.small.interpreted import interpreted
from jobs.small.prepared import FewRecord, SmallBatches
from jobs.state import ViewState
from views.definition import ViewDefinition
from views.maintained import MaintainedView, resolve_maintained
from views.tables import TableVersion

_T = TypeVar("_T")
_RETRIED = 1_000


class MirroredKeeper:
    """A ``jobs.keeping.Keeper``.

    An event that cannot be applied is parked with its key: the mirror keeps the row's last good
    version, and the view is made of that. A row of the view that cannot be made or stored is parked
    by itself (``jobs.mirrors.rows``).
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        definition: ViewDefinition,
        state: ViewState,
        sink: Sink,
        broker: Broker,
    ) -> None:
        self._spark = session_beside(spark)  # Delta learns of a transaction by its settings
        self._config, self._definition = config, definition
        self._state, self._sink, self._broker = state, sink, broker
        self._view: MaintainedView | None = None
        self._mirrors: dict[str, Mirror] = {}
        self._topics = {
            one.table_name: table_topic(config.source.name, one.schema, one.table)
            for one in definition.occurrences
        }
        self._small = SmallBatches(self._spark, config.kafka)
        self._names = Names(broker, config.source.name, definition, state)
        self._box = LetterBox(config, definition.name, state)
        self._parking = Parking(definition.name, self._box, config.apply.dlq_limit)

    def read(self) -> StructType:
        found = described(self._broker, self._config.source.name, self._definition)
        versions = self._names.under(found)
        tables, were = newest(versions), remembered(self._state.mirrors, versions)
        try:
            self._view = resolve_maintained(self._definition, tables)
        except ViewError as error:
            if all(tables[name] == was for name, was in were.items()):
                raise
            raise no_longer(self._definition.name, error.message, were, tables) from None
        check_kept(self._view, were)
        self._names.remember()
        self._small.forget()
        self._models, self._empty = models_of(self._view, versions), dict[str, pa.Table]()
        return columns_of(self._view)

    def open(self, created: bool, begin: Offsets) -> None:
        refuse_lost(self._definition, self._state, created)
        refuse_older(self._definition, self._state, self._broker, list(self._topics.values()))
        self._parking.open(begin)
        self._open()

    def _open(self) -> None:
        assert self._view is not None, "read comes first"
        directory = self._state.mirrors
        directory.mkdir(parents=True, exist_ok=True)
        forget_relations(directory)
        begun = is_begun(directory)
        self._mirrors = open_mirrors(self._spark, self._models, directory, begun)
        if not begun:
            write_attempts(directory, Attempts())
        remember(directory, self._view)
        name, limit = self._definition.name, self._config.apply.dlq_limit
        self._columns = columns_of(self._view)
        self._parked_rows = ParkedRows(name, self._box, limit, self._parking.letters)
        self._maintainer = Maintainer(
            self._spark, self._view, self._columns, self._mirrors, directory, self._parked_rows
        )

    def apply(self, records: DataFrame, number: int, end: Offsets) -> tuple[Batch, Account]:
        begin, generation = self._state.batch_begin(number), self._state.generation

        def attempt(flowing: DataFrame) -> tuple[Batch, Account]:
            known = self._models.values()
            read = self._small.read(known, begin, end) if flowing is whole else None
            rows = self._described(lambda: self._folded(flowing, begin, end, read))
            keys = self._maintainer.apply(rows, self._sink, generation, number, end)
            batch = Batch(self._definition.name, generation, number, keys)
            return batch, account_of(rows, keys)

        whole = records
        if is_large(begin, end):
            records = apart(records.sparkSession, self._config.kafka, self._broker, begin, end)
        records = left_to_do(self._definition.name, self._state, records, begin)
        return self._parking.through(records, end, attempt, self._isolate, self._is_news)

    @property
    def parked(self) -> int:
        return self._parking.parked

    def retry(self, letters: Sequence[Letter], records: DataFrame) -> Mapping[Letter, str]:
        """Apply what some letters hold, whose events are ``records``; those that are still refused,
        with the cause, and all others of their keys."""
        by_id = {letter.id: letter for letter in letters}
        again = typed_keys(self._spark, letters, self._columns, self._definition.key)
        left: dict[Letter, str] = {}
        while True:
            owners = {letter.owner for letter in left if letter.owner is not None}
            flowing = without(records, owners, {one.id for one in left if one.owner is None})
            try:
                changes = {
                    name: folded(model, self._of(name, flowing))
                    for name, model in self._models.items()
                }
                self._maintainer.apply(changes, self._sink, str(uuid.uuid4()), 0, {}, again)
                break
            except Exception as error:
                poison = self._isolate(flowing, error, _RETRIED)
                found = {by_id[one.record]: one.cause for one in poison}
                if found.keys() <= left.keys():
                    raise
                left |= found
        refused = self._parked_rows.refused
        rows = [one for one in letters if one.is_row and one.key in refused]
        return left | {one: refused[one.key or b""] for one in rows}

    def _isolate(self, flowing: DataFrame, error: BaseException, at_most: int) -> list[Poison]:
        """The events of any table that are to blame; raises ``error`` if none is."""
        found = translate(error, self._definition.name)
        records = {name: (model, self._of(name, flowing)) for name, model in self._models.items()}
        poison = poison_of(records.values(), found, at_most)
        if not poison and isinstance(found, POISON):
            events = {name: last_events(*of).toArrow() for name, of in records.items()}
            poison = self._maintainer.culprits(events, at_most)
        if not poison:
            raise error
        return poison

    def _is_news(self, topic: str, position: Position, deletes: bool) -> bool:
        """Whether an event is not left out anyway: ``_news`` has the same rules."""
        beginning, attempts = self._state.beginning(), read_attempts(self._state.mirrors)
        begin = Position(0 if beginning is None else beginning.lsn, 0)
        whole = Position(0 if beginning is None else beginning.upto, 0)
        for table, of_table in self._topics.items():
            if of_table == topic:
                begin = max(begin, attempts.truncated.get(table, begin))
        return position >= begin and (deletes or position >= whole)

    def _folded(
        self,
        records: DataFrame,
        begin: Offsets,
        end: Offsets,
        read: Sequence[FewRecord] | None,
    ) -> dict[str, pa.Table]:
        """What each table's records amount to; ``read`` are the same, where they could be."""
        self._names.refuse_parked(self._parking.letters)
        small = None if read is None else self._folded_small(records, read, begin)
        if small is not None:
            return small
        came, few = with_records(begin, end), is_few(begin, end)
        session = records.sparkSession
        if few:
            records = records.coalesce(1)
        alone = is_large(begin, end) or len(came) == 1
        with (
            interpreted(session, few),
            nullcontext(records) if alone else cached(records) as records,
        ):
            return {
                name: self._news(name, self._rows(name, records, begin, end), begin)
                if self._topics[name] in came
                else self._nothing(name, records)
                for name in self._models
            }

    def _folded_small(
        self, records: DataFrame, read: Sequence[FewRecord], begin: Offsets
    ) -> dict[str, pa.Table] | None:
        found = {}
        for name, model in self._models.items():
            of_table = [one for one in read if one.topic == self._topics[name]]
            if not of_table:
                found[name] = self._nothing(name, records)
                continue
            rows = self._small.rows(model, of_table)
            if rows is None:
                return None
            found[name] = self._news(name, rows, begin)
        return found

    def _rows(self, name: str, records: DataFrame, begin: Offsets, end: Offsets) -> pa.Table:
        model, of_table = self._models[name], self._of(name, records)
        if not is_large(begin, end) or self._mirrors[name].versions:
            return folded(model, of_table)
        kafka, topic = self._config.kafka, self._topics[name]
        return first_rows(
            model, of_table, last_records(records.sparkSession, kafka, topic, begin, end)
        )

    def _nothing(self, name: str, records: DataFrame) -> pa.Table:
        if name not in self._empty:
            self._empty[name] = nothing(self._models[name], records)
        return self._empty[name]

    def _of(self, table: str, records: DataFrame) -> DataFrame:
        return records.where(F.col("topic") == self._topics[table])

    def _news(self, table: str, rows: pa.Table, begin: Offsets) -> pa.Table:
        """Without what the snapshot has that filled the mirrors, and what was deleted before."""
        beginning = self._state.beginning()
        if beginning is not None:
            lsn = rows.column(COMMIT_LSN)
            begun = pc.greater_equal(lsn, beginning.lsn)
            later = pc.or_(rows.column(DELETED), pc.greater_equal(lsn, beginning.upto))
            rows = rows.filter(pc.and_(begun, later))
        forgotten = read_attempts(self._state.mirrors).forgotten.get(table)
        deleted = partial(self._deleted, table, begin)
        return without_returned(rows, self._mirrors[table], forgotten, deleted)

    def _deleted(self, table: str, begin: Offsets, keys: pa.Table) -> pa.Table:
        """Of some rows, those that the records before a batch delete in the end."""
        topic, beginning = self._topics[table], self._state.beginning()
        first = {} if beginning is None else beginning.offsets.get(topic, {})
        kept = self._broker.beginning_offsets([topic])[topic]
        low = {partition: max(at, first.get(partition, 0)) for partition, at in kept.items()}
        at = begin.get(topic, {})
        high = {partition: max(start, at.get(partition, 0)) for partition, start in low.items()}
        records = read_topics(self._spark, self._config.kafka, {topic: low}, {topic: high})
        records = self._parking.history(records)
        return deletions(self._models[table], records, self._spark.createDataFrame(keys))

    def _described(self, evaluate: Callable[[], _T]) -> _T:
        """Evaluate a batch; once more if its events are of versions that were not read yet: then
        they are unknown, or hold what the older types do not."""
        name = self._definition.name
        try:
            return evaluate()
        except Exception as error:
            if not isinstance(translate(error, name), POISON) or not self._learn():
                raise
        return evaluate()

    def _learn(self) -> bool:
        """Read the tables' versions again; the view and its mirrors may have other columns then.
        Whether there are new ones."""
        known, before = self._known(), self._columns
        columns = self.read()
        if self._known() == known:
            return False
        if columns != before:
            created = self._sink.prepare(columns, self._definition.key)
            self._state.refuse_lost(self._definition, created)
        self._open()
        return True

    def _known(self) -> dict[str, list[TableVersion]]:
        return {name: list(model.versions.values()) for name, model in self._models.items()}

    def close(self) -> None:
        self._parking.close()
        self._small.close()
