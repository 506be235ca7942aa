"""From one generation to the next: caught up, handed over, shown, all in this order.

Whoever applies the stream to the live generation lets go of it first, so that the new one can be
brought to where the old one was left: readers never see time go back. For that moment, a batch or
two, neither is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import structlog

from bootstrap.build_parts import Kit
from bootstrap.retention import expire
from cdc.errors import HeadwaterError, RetryableError
from cdc.kafka.broker import Offsets
from cdc.log_events import LogEvent
from cdc.topics import view_group
from jobs.generations.generation_record import Generation
from jobs.generations.last_error import forget
from jobs.generations.live_generation import settle
from jobs.generations.view_locks import taken_over
from jobs.generations.view_state import generation_id, open_state, state_directory
from jobs.sinks.stores import open_sink
from jobs.spark.checkpoint import batch_offsets, committed_batch, planned_offsets
from jobs.without_mirrors.query import ViewQuery

_POLL_S: Final = 0.05
CLOSE_S: Final = 2.0
"""A stream that covers what came meanwhile in so little time is caught up."""
STEADY_S: Final = 30.0
"""So is one that takes longer, but no shorter from round to round: a batch takes what it takes."""
_SHORTER: Final = 0.8
ROUNDS: Final = 20

log = structlog.get_logger("build")


class Follower:
    """Applies the stream to a generation that is loaded."""

    def __init__(self, kit: Kit, one: Generation) -> None:
        self._kit = kit
        self._definition = one.declared.parsed(kit.name)
        self._topics = list(kit.topics(self._definition).values())
        self._group = view_group(kit.name)
        self._begin = one.offsets
        state = open_state(state_directory(kit.directory, one.number), one.declared)
        config, store = kit.config, kit.config.store(one.declared.store)
        view, history = config.views.get(kit.name), self._definition.history
        self._sink = open_sink(
            store, kit.name, kit.spark, config.apply.retry_s, one.number, view, history
        )
        self._query = ViewQuery(
            kit.session, config, self._definition, state, self._sink, kit.broker, lambda _: None,
            kit.sharing,
        )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self._query.start(False)
        except BaseException:
            self._sink.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._query.stop()
        self._sink.close()

    def catch_up(self) -> None:
        """Until it is as close to the end of the stream as it gets.

        Raises ``RetryableError`` when that is not close: more is written than it can apply.
        """
        rounds: list[float] = []
        for _ in range(ROUNDS):
            began = time.monotonic()
            self._reach(self._kit.broker.end_offsets(self._topics))
            rounds.append(time.monotonic() - began)
            if is_close(rounds):
                return
        raise RetryableError(
            f"view {self._kit.name}: changes arrive faster than they are applied",
            "give Spark more cores, or continue when the source is less busy",
        )

    def reach_live(self) -> None:
        """Until it is where the live generation was left, which its group may not know yet."""
        live = self._kit.read().live
        assert live is not None, "there is one to be left"
        directory = state_directory(self._kit.directory, live.number)
        self._reach(planned_offsets(directory / "checkpoint"))
        self._reach(self._kit.broker.committed(self._group, self._topics))

    def until_stopped(self) -> None:
        """Go on, beside the live generation."""
        while not self._kit.stopping.wait(_POLL_S):
            self._check()

    def stop(self) -> Offsets:
        """End after the batch it is in; where that is."""
        self._query.stop()
        if (error := self._query.error()) is not None:
            raise error
        return self._at()

    def _at(self) -> Offsets:
        """What is applied: the next offsets to read."""
        found = self._query.committed()
        return self._begin if found is None else found[1]

    def _reach(self, goal: Offsets) -> None:
        while True:
            at = self._at()
            if all(
                at.get(topic, {}).get(partition, 0) >= end
                for topic, ends in goal.items()
                for partition, end in ends.items()
                if topic in self._topics
            ):
                return
            self._check()
            if self._kit.stopping.wait(_POLL_S):
                raise stopped(self._kit.name)

    def _check(self) -> None:
        if not self._query.active:
            raise self._query.error() or RetryableError(f"view {self._kit.name}: its stream ended")


def is_close(rounds: Sequence[float]) -> bool:
    """Whether the last round was short enough for a switch; each applies what came in the one
    before, and took so many seconds. Pure."""
    last = rounds[-1]
    if last < CLOSE_S:
        return True
    return len(rounds) > 2 and last <= STEADY_S and last >= _SHORTER * rounds[-2]


def switch(kit: Kit, number: int, follower: Follower | None = None) -> None:
    """Let readers see a generation. The build's turn is the caller's.

    ``follower`` is brought to where the live generation was left; without one the generation is
    shown as it is. Interrupted, it is as it was, or done.
    """
    with taken_over(kit.directory, kit.config.apply.retry_s):
        try:
            _switch(kit, number, follower)
        except BaseException:
            _undo(kit)
            raise
    kit.step(f"generation {number} is live")
    expire(kit)


def _switch(kit: Kit, number: int, follower: Follower | None) -> None:
    found = kit.read()
    target, live = found.of[number], found.live
    if follower is not None and live is not None:
        follower.reach_live()
    at = follower.stop() if follower is not None else _left_at(kit, number)
    if follower is None and live is not None:
        _go_back(kit, live, at)  # before readers see less than the group says
    mark = ""
    if live is not None:
        mark = _asked(kit, live, lambda stored: getattr(stored.live(), "mark", ""))
    found = kit.write(found.intending(number, mark))
    _asked(kit, target, lambda stored: stored.switch(number, target.mark))
    kit.write(found.switched(kit.now_s()))
    forget([kit.directory])  # what ended the stream to another generation, or to none yet
    if at:
        with suppress(RetryableError):  # whoever applies it commits them first of all
            kit.broker.commit_group(view_group(kit.name), at)


def _go_back(kit: Kit, live: Generation, at: Offsets) -> None:
    """Have the view's group say no more than ``at``. How far it was stays noted, for whoever
    applies the live generation, which is that still. Raises ``RetryableError``."""
    group, broker = view_group(kit.name), kit.broker
    topics = list(kit.topics(live.declared.parsed(kit.name)).values())
    back = {
        topic: {n: min(held, at.get(topic, {}).get(n, 0)) for n, held in of_topic.items()}
        for topic, of_topic in broker.committed(group, topics).items()
    }
    if back:
        note = generation_id(state_directory(kit.directory, live.number)) or ""
        broker.commit_group(group, back, note, broker.reached(group, topics, note))


def _left_at(kit: Kit, number: int) -> Offsets:
    """Where a generation's stream was left."""
    checkpoint = state_directory(kit.directory, number) / "checkpoint"
    batch = committed_batch(checkpoint)
    return kit.read().of[number].offsets if batch is None else batch_offsets(checkpoint, batch)


def _asked(kit: Kit, one: Generation, question: Callable[..., str | None]) -> str:
    stored = kit.stored(one)
    try:
        return question(stored) or ""
    finally:
        stored.close()


def settle_left(kit: Kit) -> None:
    """End a switch that a killed process had begun. The build's turn is the caller's."""
    if kit.read().switching is not None:
        with taken_over(kit.directory, kit.config.apply.retry_s):
            settle(kit.spark, kit.config, kit.name, kit.read())


def stopped(view: str) -> RetryableError:
    """Of a build that was told to stop."""
    return RetryableError(
        f"view {view}: stopped", f"run `headwater view rebuild {view}` to continue"
    )


def _undo(kit: Kit) -> None:
    """What the store was not told is withdrawn; if it cannot say, whoever is next asks it."""
    try:
        settle(kit.spark, kit.config, kit.name, kit.read())
    except HeadwaterError as error:
        log.warning(LogEvent.SWITCH_NOT_SETTLED, view=kit.name, error=str(error))
