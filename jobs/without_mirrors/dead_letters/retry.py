"""Dead letters of a view that somebody looked at: applied after all, or given up.

Both hold the view's stream meanwhile: a running apply lets go of it, and reads what is parked when
it goes on. Letters are settled when the store has what came of them, so after a crash in between
they are applied once more, which changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cdc.config import Config
from cdc.errors import ViewError
from cdc.kafka.broker import Broker
from jobs.generations.generation_record import read_generations
from jobs.generations.live_generation import Standing, standing
from jobs.generations.live_view_lock import live_held
from jobs.generations.view_state import ViewState, view_directory
from jobs.sinks.stores import open_sink
from jobs.without_mirrors.column_names import Names
from jobs.without_mirrors.dead_letters.bisection import applied_but, isolate
from jobs.without_mirrors.dead_letters.letter import Letter, Letters
from jobs.without_mirrors.dead_letters.parked_records import without
from jobs.without_mirrors.dead_letters.topic import LetterBox
from jobs.without_mirrors.evaluation import Applier, Model, evaluate
from jobs.without_mirrors.late_snapshot_values import apply_records
from jobs.without_mirrors.snapshot_rows import RECORD, read_before
from jobs.without_mirrors.table_descriptions import described
from views.spark.resolution import resolve


class Outcome(NamedTuple):
    """``settled`` letters wait no more; ``left`` are still refused, with the cause."""

    settled: list[Letter]
    left: dict[str, str]


def names(letter: Letter) -> str:
    """What a letter is chosen by: its key, or where it stands if it has none."""
    return letter.id if letter.key is None else letter.key.decode(errors="replace")


def qualified(letter: Letter) -> str:
    """``names`` with the topic, where a key alone is one of several tables: for a row of the view
    its name."""
    return letter.id if letter.key is None else f"{letter.topic}:{names(letter)}"


def discard(config: Config, name: str, wanted: Collection[str] | None) -> Outcome:
    """Give up the letters of some keys (None: of all): the next event of each is applied."""
    with _held(config, name) as live, closing(LetterBox(config, name, live.state)) as box:
        letters = box.read()
        chosen = _chosen(letters, wanted)
        _settle(box, letters, chosen)
    return Outcome(chosen, {})


def retry(
    spark: SparkSession, config: Config, name: str, wanted: Collection[str] | None
) -> Outcome:
    """Apply the letters of some keys (None: of all), each key's in order, as the stream would.

    What is still refused stays parked, whole keys at a time.
    """
    with _held(config, name) as live, closing(LetterBox(config, name, live.state)) as box:
        letters = box.read(values=True)
        chosen = _chosen(letters, wanted)
        if not chosen:
            return Outcome([], {})
        left = _applied(spark, config, live, chosen, letters)
        owners = {letter.owner or letter.id for letter in left}
        done = [letter for letter in chosen if (letter.owner or letter.id) not in owners]
        _settle(box, letters, done)
    return Outcome(done, {names(letter): cause for letter, cause in left.items()})


@contextmanager
def _held(config: Config, name: str) -> Iterator[Standing]:
    """The live generation, which nobody else writes until the block ends."""
    directory = view_directory(config.apply.state, config.source.name, name)
    if (shown := read_generations(directory).live) is None:
        raise ViewError(
            f"view {name}: no changes have been applied to it by this deployment",
            "run `headwater apply`",
        )
    with live_held(directory, config.apply.retry_s, shown.number):
        live = standing(None, config, name, True)
        assert live is not None, "it was there before the locks were taken"
        yield live


def _chosen(letters: Letters, wanted: Collection[str] | None) -> list[Letter]:
    if wanted is None:
        return list(letters.open.values())
    found = [one for one in letters.open.values() if {names(one), qualified(one)} & set(wanted)]
    if unknown := set(wanted) - {text for one in found for text in (names(one), qualified(one))}:
        raise ViewError(
            f"{len(unknown)} of the keys are not parked", "see `headwater dead-letters list VIEW`"
        )
    return found


def _settle(box: LetterBox, letters: Letters, done: list[Letter]) -> None:
    ids = [letter.id for letter in done]
    letters.settle(ids)
    if ids:
        box.settle(ids, letters.parked)


def _applied(
    spark: SparkSession, config: Config, live: Standing, chosen: list[Letter], letters: Letters
) -> Mapping[Letter, str]:
    """Give letters to the store; those that are still refused, with the cause."""
    name, definition = live.definition.name, live.definition
    if definition.maintained:
        return _applied_to_mirrors(spark, config, live, chosen)
    topic = config.source.own_topic(definition.schema, definition.table)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        found = described(broker, config.source.name, definition)
        names = Names(broker, config.source.own_topic, definition, live.state)
        (versions,) = names.under(found).values()

    def before() -> DataFrame:
        ends = {one.partition: one.offset for one in sorted(chosen, key=lambda one: one.offset)}
        with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
            beginning = live.state.beginning()
            records = read_before(spark, config, broker, topic, beginning, ends)
        return without(records, set(), letters.open.keys() | letters.settled)

    every = bool(definition.history)
    model = Model(resolve(definition, list(versions.values())[-1]), versions, every)
    store, retry_s = config.store(definition.store), config.apply.retry_s
    declared = config.views.get(name)
    with closing(
        open_sink(store, name, spark, retry_s, live.number, declared, definition.history)
    ) as sink:
        live.state.refuse_lost(definition, sink.prepare(model.columns, definition.key))
        # Of no checkpoint: Delta would take the batch for one that it has.
        state = ViewState(live.state.directory, str(uuid.uuid4()))
        applier = Applier(name, state, sink, False, every=every)
        return attempted(spark, model, applier, chosen, before)


def _applied_to_mirrors(
    spark: SparkSession, config: Config, live: Standing, chosen: list[Letter]
) -> Mapping[Letter, str]:
    from jobs.delta_engine.live_view import live_keeper

    with live_keeper(spark, config, live) as keeper:
        return keeper.retry(chosen, _frame(spark, [one for one in chosen if not one.is_row]))


def attempted(
    spark: SparkSession,
    model: Model,
    applier: Applier,
    chosen: list[Letter],
    before: Callable[[], DataFrame],
) -> Mapping[Letter, str]:
    """Apply letters, ``before`` which the topic has other records; those that are still refused,
    with the cause."""

    def attempt(flowing: DataFrame) -> None:
        apply_records(model.view, flowing, 0, applier, partial(evaluate, model), before)

    return applied_but(chosen, _frame(spark, chosen), attempt, partial(isolate, model))


def _frame(spark: SparkSession, letters: list[Letter]) -> DataFrame:
    """Letters as the Kafka source gives records."""
    rows: list[tuple[Any, ...]] = [
        (
            None if one.key is None else bytearray(one.key),
            bytearray(one.value),
            one.topic,
            one.partition,
            one.offset,
            datetime.fromtimestamp(one.timestamp_ms / 1000, UTC),
        )
        for one in letters
    ]
    return spark.createDataFrame(rows, f"{RECORD}, timestamp timestamp")
