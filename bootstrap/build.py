"""A new generation of a view, step by step, from wherever an earlier run was killed.

    note the ends O of the topics ─▶ snapshot at L ─▶ load it ─▶ stream from O ─▶ switch

What is committed below L is in the snapshot: everything below O is, for it was in Kafka before the
snapshot began. So the stream from O, without what is below L, leaves nothing out; and Kafka needs
no history from before O. Each step is recorded when it is done
(``jobs.generations.generation_record``) and does the same when it is done again. Readers see
nothing of any of it before the switch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from bootstrap.build_parts import Kit, Tables
from bootstrap.retention import discard, remove
from bootstrap.switch import Follower, settle_left, stopped, switch
from cdc.errors import ViewError
from cdc.kafka.broker import Offsets
from cdc.kafka.event_reader import form_of
from jobs.delta_engine.mirrors.fill import filled
from jobs.generations.declaration import Declaration, declared
from jobs.generations.generation_record import Generation, Phase
from jobs.generations.view_locks import BUSY_S, is_kept, taken_over, turn
from jobs.generations.view_state import ViewState, open_state, state_directory
from jobs.sinks.contract import Live
from jobs.sinks.schema_evolution import check_names
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.column_names import Names, live_state, namings_of
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.schemas_topic import Versions
from jobs.without_mirrors.snapshot_rows import loaded_rows, read_topics
from jobs.without_mirrors.table_descriptions import NotDescribedError, described, newest, no_topic
from views.parse.definition import ViewDefinition
from views.spark.generation_names import called_now, seen
from views.spark.lost_columns import refuse_lost_columns
from views.spark.view import MaintainedView, resolve_view

NOTHING_SHOWN: Final = Live(0, "")


@dataclass(slots=True)
class Built:
    """What came of a build. ``seconds`` of the steps that this run took. ``dead_letters`` rows of
    the table are missing: they were too large for Kafka. ``applied``: somebody applied the
    generation that it took the place of, or waited for this one; None if it is not live."""

    view: str
    generation: int
    rows: int
    live: bool
    seconds: dict[str, float] = field(default_factory=dict)
    dead_letters: int = 0
    applied: bool | None = None


def build(kit: Kit, hold: bool = False) -> Built:
    """Build the view as it is declared, or go on with a build that was begun.

    ``hold``: stay beside the live generation, applying the stream, until ``kit.stopping``; the
    next build switches. Raises ``RetryableError`` when it was stopped, or what a store, Kafka or
    the source say; the next run goes on.
    """
    with turn(kit.directory, "build", BUSY_S):
        settle_left(kit)
        one = _begun(kit)
        built = Built(kit.name, one.number, one.rows, False)
        began = time.monotonic()
        for phase, name, do in (
            ("planned", "snapshot", _start),
            ("snapshotting", "snapshot", _finish),
            ("snapshotted", "load", _load),
        ):
            if one.phase == phase:
                _go_on(kit)
                one = do(kit, one)
                built.seconds[name] = time.monotonic() - began
                began = time.monotonic()
        built.rows, built.dead_letters = one.rows, one.dead_letters
        discard(kit, one.number)
        _follow(kit, one, built, hold)
    return built


def _begun(kit: Kit) -> Generation:
    """The generation that is being built, or a new one."""
    found = kit.read()
    one = found.building
    if one is not None and not kit.is_declared(one):
        kit.step(f"generation {one.number} was begun with another declaration: starting over")
        remove(kit, one.number)
        one, found = None, kit.read()
    if one is not None:
        kit.step(f"going on with generation {one.number}: {one.phase}")
        return one
    definition = kit.definition
    topics = kit.topics(definition)
    held = kit.broker.partitions(list(topics.values()))
    for table, topic in topics.items():
        if topic not in held:
            raise no_topic(kit.broker, kit.config.source.name, definition, table, topic)
    _check(kit, definition)  # what can be refused is refused before anything is read
    ids = kit.broker.topic_ids(list(topics.values()))  # before the offsets, which are theirs
    offsets = kit.broker.end_offsets(list(topics.values()))
    # Where none is known, whoever applies the view may be about to make the first one.
    alone = nullcontext() if found.of else taken_over(kit.directory, kit.config.apply.retry_s)
    with alone:
        begun = _planned(kit, declared(definition), offsets, ids)
    kit.step(f"generation {begun.number} begun")
    return begun


def _planned(
    kit: Kit, wanted: Declaration, offsets: Offsets, topic_ids: Mapping[str, str]
) -> Generation:
    """A new generation, written down: above those that are known and what the store shows."""
    found, shown = kit.read(), _shown(kit, wanted)
    if not kit.new_history:
        refuse_to_forget(kit.name, kit.directory, found.live, shown)
    if shown.number and shown.number not in found.of:
        number = shown.number
        kit.step(f"what people read, generation {number}, is not known here: it stays as it is")
    planned = found.planned(wanted, offsets, kit.now_s(), shown.number, topic_ids, kit.layout)
    begun = kit.write(planned).building
    assert begun is not None
    return begun


def refuse_to_forget(
    view: str, directory: Path, live: Generation | None, shown: Live = NOTHING_SHOWN
) -> None:
    """Raises ``ViewError`` where history would end. It may be in another store than the one that
    is declared now."""
    kept = shown.number if shown.history else 0
    if live is not None and live.declared.history:
        state = open_state(state_directory(directory, live.number), live.declared)
        kept = 0 if state.lost() else live.number
    if kept:
        raise ViewError(
            f"view {view} has history since generation {kept}, which a snapshot cannot restore: "
            "a new generation starts with the current rows",
            "copy the history you need, then add --new-history",
        )


def _shown(kit: Kit, wanted: Declaration) -> Live:
    """What the store shows people. It may not be known here: the state was lost, or is another
    host's. It must not be touched all the same."""
    stored = kit.stored(Generation(0, "planned", wanted))
    try:
        live = stored.live()
    finally:
        stored.close()
    return live or NOTHING_SHOWN


def _start(kit: Kit, one: Generation) -> Generation:
    snapshot = kit.snapshots.start(one.declared.parsed(kit.name))
    return _finish(kit, _moved(kit, one, "snapshotting", snapshot=snapshot))


def _finish(kit: Kit, one: Generation) -> Generation:
    if not one.snapshot or not kit.snapshots.goes_on(one.snapshot):
        kit.step(f"snapshot {one.snapshot} was cancelled: another one is taken")
        discard(kit, one.number)
        return _start(kit, one)
    tables = ", ".join(one.declared.parsed(kit.name).table_names)
    kit.step(f"snapshot {one.snapshot} of {tables}")
    taken = kit.snapshots.finish(one.snapshot)
    return _moved(
        kit,
        one,
        "snapshotted",
        points=taken.points,
        clean=taken.clean,
        rows=taken.rows,
        dead_letters=taken.dead_letters,
    )


def _load(kit: Kit, one: Generation) -> Generation:
    """Fill the store, and set up the stream's state; a stream of an earlier load is forgotten."""
    definition = one.declared.parsed(kit.name)
    tables = ", ".join(definition.table_names)
    kit.step(f"loading {one.rows:,} rows of {tables} into {one.declared.store}")
    directory = state_directory(kit.directory, one.number)
    shutil.rmtree(directory / "checkpoint", ignore_errors=True)
    state = open_state(directory, one.declared, one.beginning)
    stored = kit.stored(one)
    try:
        with _rows(kit, one, definition, state) as (rows, columns):
            stored.load(one.number, rows, columns, definition.key)
    finally:
        stored.close()
    return _moved(kit, one, "loaded")


def _follow(kit: Kit, one: Generation, built: Built, hold: bool) -> None:
    began = time.monotonic()
    with Follower(kit, one) as follower:
        kit.step("applying the stream")
        follower.catch_up()
        built.seconds["stream"] = time.monotonic() - began
        if hold:
            kit.step("caught up; held beside what is live until stopped")
            follower.until_stopped()
            return
        _go_on(kit)
        began = time.monotonic()
        built.applied = is_kept(kit.directory)
        switch(kit, one.number, follower)
    built.live = True
    built.seconds["switch"] = time.monotonic() - began


@contextmanager
def _rows(
    kit: Kit, one: Generation, definition: ViewDefinition, state: ViewState
) -> Iterator[tuple[DataFrame, StructType]]:
    """What the store is to be filled with, and its columns."""
    topics, found = kit.snapshots.topics(one.snapshot), _versions(kit, definition)
    names = Names(kit.broker, kit.config.source.own_topic, definition, state)
    versions = names.anew(found)

    def records_of(table: str) -> DataFrame:
        topic = [topics[table]]
        begin, end = kit.broker.beginning_offsets(topic), kit.broker.end_offsets(topic)
        return read_topics(kit.session, kit.config, begin, end)

    view = resolve_view(definition, newest(versions))
    if isinstance(view, MaintainedView):
        filling = filled(
            kit.session, view, versions, records_of, state.mirrors, one.beginning, one.clean
        )
        with filling as rows:
            yield rows, columns_of(view)
        return
    (table,) = versions
    model = Model(view, versions[table])
    yield loaded_rows(model, records_of(table), one.clean), model.columns


def _check(kit: Kit, definition: ViewDefinition) -> None:
    """Raises ``ViewError`` for a view that does not fit its store or its tables, and names the
    columns that it calls otherwise than they are called now."""
    tables = kit.present(newest(_versions(kit, definition)))
    try:
        view = resolve_view(definition, tables)
        refuse_lost_columns(form_of(kit.config), view)
    except ViewError as error:
        called = _called_now(kit, definition, tables)
        if not called:
            raise
        said = ", ".join(f"{now!r} for {name!r}" for name, now in called.items())
        hint = f"write the present name in the view's SQL: {said}. {error.hint}".strip()
        raise ViewError(error.message, hint) from None
    check_names(kit.name, kit.config.store(definition.store).kind, columns_of(view))


def _called_now(kit: Kit, definition: ViewDefinition, tables: Tables) -> dict[str, str]:
    """Columns that the SQL names as the live generation does, and what the source calls them."""
    versions = {name: {table.schema_id: table} for name, table in tables.items()}
    namings = namings_of(live_state(kit.directory), definition, versions)
    followed = [seen(table, namings[name]) for name, table in tables.items()]
    called = {name: now for table in followed for name, now in called_now(table).items()}
    named = definition.columns_named
    return {name: now for name, now in called.items() if named is None or name in named}


def _versions(kit: Kit, definition: ViewDefinition) -> dict[str, Versions]:
    try:
        return described(kit.broker, kit.config.source.name, definition)
    except NotDescribedError as error:
        raise ViewError(error.message, "run `headwater init`, then `headwater capture`") from None


def _moved(kit: Kit, one: Generation, phase: Phase, **fields: object) -> Generation:
    return kit.write(kit.read().moved(one.number, phase, **fields)).of[one.number]


def _go_on(kit: Kit) -> None:
    if kit.stopping.is_set():
        raise stopped(kit.name)
