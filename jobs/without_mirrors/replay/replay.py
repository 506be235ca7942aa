"""A view's stream begun again at an earlier place: what comes again changes nothing, by position.

Whoever applies the view lets go of it, and goes on from there. Its group goes back as well, so what
asks how far the view is (``lag``, ``wait``, Kafka's tools) is told of the replay, not of before it:
a store that has forgotten a row's delete may show the row until the delete comes again. A view over
mirrors is made anew from them (``jobs.delta_engine.keeper``).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import UsageError, ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.registry.schemas import payloads_of, registry_of
from cdc.topics import view_group
from jobs.generations.generation_record import Generation, read_generations
from jobs.generations.live_view_lock import live_held
from jobs.generations.topic_ids import refuse_recreated
from jobs.generations.view_state import (
    Replay,
    ViewState,
    generation_id,
    lost_error,
    state_directory,
    view_directory,
)
from jobs.spark.checkpoint import batch_offsets, committed_batch
from jobs.without_mirrors.regrouped_topics import refuse_regrouped
from jobs.without_mirrors.replay.checkpoint_rewind import finish_rewind, rewind
from jobs.without_mirrors.replay.start_position import Place, places
from views.parse.definition import ViewDefinition


class Replayed(NamedTuple):
    """A replay that has begun: from ``starts`` on, ``records`` of ``until`` come again; before,
    ``archived`` rows were written out of an archive."""

    generation: int
    starts: Offsets
    until: Offsets
    archived: int = 0

    @property
    def records(self) -> int:
        return sum(
            max(0, end - self.starts[topic][partition])
            for topic, ends in self.until.items()
            for partition, end in ends.items()
        )


def replay(config: Config, broker: Broker, name: str, text: str, place: Place) -> Replayed:
    """Let the live generation of a view begin again at ``place``, which was written as ``text``.

    Raises ``ViewError`` when it was never applied, another command works on it, or a topic was
    recreated; ``UsageError`` when there is nothing to replay; ``LogError`` when retention has
    removed what is asked for.
    """
    directory = view_directory(config.apply.state, config.source.name, name)
    live = live_generation(directory, name)
    definition = live.declared.parsed(name)
    topics = dict.fromkeys(
        config.source.own_topic(one.schema, one.table) for one in definition.occurrences
    )
    state = state_of(directory, live)
    beginning = state.beginning()
    floor = {} if beginning is None else beginning.offsets
    wanted = places(broker, topics, place, floor, payloads_of(registry_of(config)))
    with live_held(directory, config.apply.retry_s, live.number):
        state = state_of(directory, live)
        finish_rewind(state.checkpoint)
        refuse_recreated(state, name, broker.topic_ids(list(topics)))
        applied = applied_offsets(state, definition)
        starts = earlier(applied, wanted)
        if starts == applied:
            raise UsageError(
                f"view {name} has applied nothing after that position",
                "give an earlier position; `headwater lag` shows the current one",
            )
        if not definition.maintained:
            refuse_regrouped(broker, config.source.name, name, starts)
        until = later(state.replay(), applied)
        if definition.maintained:
            until = _mirrored(state, until)
        begin_again(broker, name, state, Replay(text, starts, until, time.time()))
        return Replayed(live.number, starts, applied)


def begin_again(broker: Broker, name: str, state: ViewState, again: Replay) -> None:
    """Let the stream go on at ``again.starts``; only while nobody applies it."""
    state.remember_replay(again)
    rewind(state.checkpoint, again.starts)
    broker.commit_group(view_group(name), again.starts, state.generation, again.until)


def earlier(applied: Offsets, wanted: Offsets) -> Offsets:
    """Where each partition begins: never above what was applied, for that would leave records
    out; and where nothing else is asked for, there."""
    return {
        topic: {
            partition: min(at, wanted.get(topic, {}).get(partition, at))
            for partition, at in ends.items()
        }
        for topic, ends in applied.items()
    }


def later(before: Replay | None, applied: Offsets) -> Offsets:
    """Up to where records were applied once: one replay may begin within another."""
    known = {} if before is None else before.until
    return {
        topic: {p: max(at, known.get(topic, {}).get(p, 0)) for p, at in ends.items()}
        for topic, ends in applied.items()
    }


def _mirrored(state: ViewState, until: Offsets) -> Offsets:
    """Up to where mirrors have records: the batch that comes next may be settled already."""
    from jobs.delta_engine.mirrors.attempts import read_attempts

    had = read_attempts(state.mirrors).offsets
    return {
        topic: {p: max(at, had.get(topic, {}).get(p, 0)) for p, at in ends.items()}
        for topic, ends in until.items()
    }


def live_generation(directory: Path, name: str) -> Generation:
    """What readers see of a view. Raises ``ViewError`` when it was never applied here."""
    live = read_generations(directory).live
    if live is None:
        raise ViewError(
            f"view {name}: no changes have been applied to it by this deployment",
            "run `headwater apply`",
        )
    return live


def state_of(directory: Path, live: Generation) -> ViewState:
    """Of that generation."""
    of_live = state_directory(directory, live.number)
    return ViewState(of_live, generation_id(of_live) or "")


def applied_offsets(state: ViewState, view: ViewDefinition) -> Offsets:
    """Where the last batch ends that the view has for certain."""
    if state.lost():
        raise lost_error(view.name, view.store)
    number = committed_batch(state.checkpoint)
    if number is None:
        raise ViewError(
            f"view {view.name}: it has applied no changes yet",
            "run `headwater apply`: it starts at the beginning, so no replay is needed",
        )
    return batch_offsets(state.checkpoint, number)
