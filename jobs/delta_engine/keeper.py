"""A view with mirrors: kept over mirrors of its tables, in the folder of its generation."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cdc.config import Config
from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.event_reader import form_of
from cdc.lsn import Position
from jobs.delta_engine.batch_changes import Folding
from jobs.delta_engine.batch_records import apart
from jobs.delta_engine.faulty_events import poison_of
from jobs.delta_engine.maintainer import Maintainer
from jobs.delta_engine.mirrors.attempts import Attempts, is_begun, read_attempts, write_attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.mirrors.mirror_views import account_of, folded, models_of, open_mirrors
from jobs.delta_engine.mirrors.progress import left_to_do, refuse_lost, refuse_older, refuse_unknown
from jobs.delta_engine.mirrors.table_record import check_kept, remember, remembered
from jobs.delta_engine.parked_rows import ParkedRows, keys_at_hand, typed_keys
from jobs.delta_engine.queries import forget_relations
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import Batch, Sink
from jobs.spark.column_types import columns_of
from jobs.spark.faults import POISON, translate
from jobs.spark.session import session_beside
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.column_names import Names
from jobs.without_mirrors.dead_letters.bisection import Poison, applied_but, last_events
from jobs.without_mirrors.dead_letters.letter import Letter
from jobs.without_mirrors.dead_letters.parking import Parking
from jobs.without_mirrors.dead_letters.topic import LetterBox
from jobs.without_mirrors.earlier_changes import EarlierChanges, Places
from jobs.without_mirrors.incompatible_schema import no_longer
from jobs.without_mirrors.replay.repair import writable
from jobs.without_mirrors.snapshot_rows import read_before
from jobs.without_mirrors.table_descriptions import Descriptions, newest, with_versions
from views.parse.definition import ViewDefinition
from views.spark.lost_columns import refuse_lost_columns
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableVersion


class MirroredKeeper:
    """A ``jobs.without_mirrors.keeper.Keeper``.

    An event that cannot be applied is parked with its key: the mirror keeps the row's last good
    version, and the view is made of that. A row of the view that cannot be made or stored is parked
    by itself (``jobs.delta_engine.parked_rows``).
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
            one.table_name: config.source.own_topic(one.schema, one.table)
            for one in definition.occurrences
        }
        self._earlier = {
            table: EarlierChanges(partial(self._records_between, topic))
            for table, topic in self._topics.items()
        }
        self._descriptions = Descriptions(broker, config.source.name, definition)
        self._names = Names(broker, config.source.own_topic, definition, state)
        self._box = LetterBox(config, definition.name, state)
        self._parking = Parking(definition.name, self._box, config.apply.dlq_limit)

    def read(self) -> StructType:
        versions = self._names.under(self._descriptions.read())
        tables, were = newest(versions), remembered(self._state.mirrors, versions)
        try:
            self._view = resolve_maintained(self._definition, tables)
        except ViewError as error:
            if all(tables[name] == was for name, was in were.items()):
                raise
            raise no_longer(self._definition.name, error.message, were, tables) from None
        refuse_lost_columns(form_of(self._config), self._view)
        check_kept(self._view, were)
        self._names.remember()
        self._models = models_of(self._view, versions)
        return columns_of(self._view)

    def open(self, created: bool, begin: Offsets) -> None:
        refuse_lost(self._definition, self._state, created)
        refuse_unknown(self._definition, self._state, self._sink, created)
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
        self._folding = Folding(
            self._spark, self._state, self._topics, self._models, self._mirrors, self._parking,
            self._earlier,
        )  # fmt: skip
        self._parked_rows = ParkedRows(name, self._box, limit, self._parking.letters)
        self._maintainer = Maintainer(
            self._spark, self._view, self._columns, self._mirrors, directory, self._parked_rows
        )

    def apply(self, records: DataFrame, number: int, end: Offsets) -> tuple[Batch, Account]:
        if self._descriptions.changed():
            self._learn()
        begin, generation = self._state.batch_begin(number), self._state.generation
        name, source = self._definition.name, self._config.source.name

        def folded_of(flowing: DataFrame) -> dict[str, pa.Table]:
            self._names.refuse_parked(self._parking.letters, flowing)
            return self._folding.batch(flowing, begin, end)

        def attempt(flowing: DataFrame) -> tuple[Batch, Account]:
            rows = with_versions(name, source, partial(folded_of, flowing), self._learn)
            keys = self._maintainer.apply(rows, self._sink, generation, number)
            return Batch(name, generation, number, keys), account_of(rows, keys)

        records = apart(records.sparkSession, self._config, self._broker, begin, end)
        records = left_to_do(name, self._state, records, begin)
        done = self._parking.through(records, end, attempt, self._isolate, self._is_news)
        self._maintainer.settle(end)  # not before letters that are over, for it leaves out the rest
        for changes in self._earlier.values():
            changes.rest()
        replay = self._state.replay()
        if replay is not None and replay.goes_on(begin) and not replay.goes_on(end):
            self._write_whole()
        return done

    def _write_whole(self) -> None:
        """Write all rows of the view, and delete those that only the store has: with the last batch
        of a replay, so above what that has brought.

        What comes again has been left out, for the mirrors have had it. It was neither parked, nor
        did it free what is: the events were judged when they came first.
        """
        assert self._view is not None, "read comes first"
        self._write(self._maintainer.keys())
        written, key = read_attempts(self._state.mirrors).position, self._view.key
        older = [row.key for row in self._sink.scan() if row.position < written]
        keys = (dict(zip(key, values, strict=True)) for values in older)
        if gone := [one for one in keys if writable(self._view, one)]:
            self.make_anew(gone)

    @property
    def parked(self) -> int:
        return self._parking.parked

    def retry(self, letters: Sequence[Letter], records: DataFrame) -> Mapping[Letter, str]:
        """Apply what some letters hold, whose events are ``records``; those that are still refused,
        with the cause, and all others of their keys."""
        again = typed_keys(self._spark, letters, self._columns, self._definition.key)

        def attempt(flowing: DataFrame) -> None:
            changes = {
                name: folded(model, self._folding.of(name, flowing))
                for name, model in self._models.items()
            }
            self._maintainer.apply(changes, self._sink, str(uuid.uuid4()), 0, again)
            self._maintainer.settle({})

        left = applied_but(letters, records, attempt, self._isolate)
        refused = self._parked_rows.refused
        rows = [one for one in letters if one.is_row and one.key in refused]
        return left | {one: refused[one.key or b""] for one in rows}

    def make_anew(self, keys: Iterable[Mapping[str, object]], lsn: int = 0) -> None:
        """Write rows of the view by their keys, as the mirrors have them; at ``lsn`` or later."""
        self._write(keys_at_hand(self._spark, keys, self._columns, self._definition.key), lsn)

    def _write(self, keys: pa.Table, lsn: int = 0) -> None:
        none = {name: self._folding.nothing(name) for name in self._models}
        self._maintainer.apply(none, self._sink, str(uuid.uuid4()), 0, keys, lsn)
        self._maintainer.settle({})

    def _isolate(self, flowing: DataFrame, error: BaseException, at_most: int) -> list[Poison]:
        """The events of any table that are to blame; raises ``error`` if none is."""
        found = translate(error, self._definition.name)
        records = {
            name: (model, self._folding.of(name, flowing)) for name, model in self._models.items()
        }
        poison = poison_of(records.values(), found, at_most)
        if not poison and isinstance(found, POISON):
            events = {name: last_events(*of).toArrow() for name, of in records.items()}
            poison = self._maintainer.culprits(events, at_most)
        if not poison:
            raise error
        return poison

    def _is_news(self, topic: str, position: Position, deletes: bool) -> bool:
        """Whether an event is not left out anyway: ``Folding`` has the same rules."""
        beginning, attempts = self._state.beginning(), read_attempts(self._state.mirrors)
        begin = Position(0 if beginning is None else beginning.lsn, 0)
        whole = Position(0 if beginning is None else beginning.upto, 0)
        for table, of_table in self._topics.items():
            if of_table == topic:
                begin = max(begin, attempts.truncated.get(table, begin))
        return position >= begin and (deletes or position >= whole)

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

    def _records_between(self, topic: str, begin: Places, end: Places) -> DataFrame:
        beginning, config = self._state.beginning(), self._config
        return read_before(self._spark, config, self._broker, topic, beginning, end, since=begin)

    def close(self) -> None:
        for changes in self._earlier.values():
            changes.release()
        self._parking.close()
        self._broker.close()  # a batch that ends when its view has ended may have connected again
