"""However often capture dies and is cut off, Kafka holds what a calm run leaves. Seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from cdc.capture import loop as capture
from cdc.capture.confirmation import Progress
from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.capture.loop import Capture
from cdc.capture.mark_writer import MarkWriter
from cdc.capture.partition_floors import Floors
from cdc.errors import HeadwaterError
from cdc.events.change import Transcriber
from cdc.kafka import partition_ends as tails
from cdc.kafka.broker import Offsets, windows_back
from cdc.kafka.producer import Producer
from cdc.lsn import Position
from tests.simulation.contents import DIFFERS, difference, events
from tests.simulation.kafka import Log
from tests.simulation.run import run
from tests.simulation.stream import AHEAD

SEEDS = range(40)
SEEDS_FOR_A_BUG = range(20)
SEED_OF_MANY_LIVES = 7
LIMITS = (3_100, 1_000_000, 2_000, 8_000)


def _some(seeds: range) -> list[Any]:
    """The first third is of the suite."""
    left = len(seeds) // 3
    return [*seeds[:left], *(pytest.param(n, marks=pytest.mark.exhaustive) for n in seeds[left:])]


def fault(seed: int) -> str:
    """What is wrong with the seed's runs; empty when nothing is."""
    try:
        calm = run(seed, troubled=False)
        troubled = run(seed, troubled=True)
    except (AssertionError, HeadwaterError) as error:
        return f"{type(error).__name__}: {error}"
    return difference(calm.log, troubled.log)


@pytest.mark.parametrize("seed", _some(SEEDS))
def test_every_partition_is_as_after_a_calm_run(seed: int) -> None:
    found = fault(seed)
    assert not found, f"seed {seed}: {found}"


@pytest.mark.parametrize("seed", _some(SEEDS[::2]))
def test_what_is_too_large_in_one_life_and_not_in_the_next_stands_once(seed: int) -> None:
    """As a value that is looked up, which the source may have changed since."""
    found = flipped(seed)
    assert not found, f"seed {seed}: {found}"


def flipped(seed: int) -> str:
    """What is wrong with a run of the seed in which each life has another limit."""
    calm = run(seed, troubled=False)
    try:
        troubled = run(seed, troubled=True, limits=LIMITS)
    except (AssertionError, HeadwaterError) as error:
        return f"{type(error).__name__}: {error}"
    return difference(calm.log, troubled.log, events)


def test_one_seed_is_one_history() -> None:
    first, again = (run(SEED_OF_MANY_LIVES, troubled=True) for _ in range(2))
    assert 2 < first.lives < first.sessions
    assert first.log.records == again.log.records


def test_some_rows_go_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    adopted: list[int] = []
    adopt = Transcriber.adopt

    def noted(self: Transcriber, *what: Any) -> None:
        adopted.append(len(what))
        adopt(self, *what)

    monkeypatch.setattr(Transcriber, "adopt", noted)
    run(SEED_OF_MANY_LIVES, troubled=True)
    assert adopted


def assert_caught() -> None:
    """The bug that was planted shows as a difference in one of a few seeds."""
    assert any(DIFFERS in fault(seed) for seed in SEEDS_FOR_A_BUG)


def blur_tails(monkeypatch: pytest.MonkeyPatch, blurred: Callable[[Tail], Tail]) -> None:
    """Capture sees less in each partition's end than stands there."""

    def read_tails(
        log: Log, topics: Sequence[str], floor: Offsets, read: tails.Read, source: str
    ) -> dict[tuple[str, int], Tail]:
        found = tails.read_tails(log, topics, floor, read, source)
        return {at: blurred(tail) for at, tail in found.items()}

    monkeypatch.setattr(capture, "read_tails", read_tails)


def test_a_session_that_forgets_what_the_process_published_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Capture, "_replay", lambda _self, held: held)
    assert_caught()


def test_a_mark_of_what_is_only_published_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(progress: Progress) -> int:
        progress._flights.clear()
        progress.durable = progress.published
        return progress.durable

    monkeypatch.setattr(Progress, "settle", settle)
    assert_caught()


def test_a_confirmation_ahead_of_its_mark_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    record = MarkWriter.record

    def hasty(writer: MarkWriter, progress: Progress, *, now: bool = False) -> None:
        record(writer, progress, now=now)
        progress.recorded(progress.durable)

    monkeypatch.setattr(MarkWriter, "record", hasty)
    assert any(AHEAD in fault(seed) for seed in SEEDS_FOR_A_BUG)


def test_a_tail_read_one_record_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_short(floor: int, end: int) -> Iterator[tuple[int, int]]:
        return windows_back(floor, end - 1)

    monkeypatch.setattr(tails, "windows_back", one_short)
    assert_caught()


def test_a_mark_whose_offsets_end_the_search_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Floors, "at", lambda *_: {})
    assert_caught()


def test_a_delete_that_lost_its_tombstone_and_is_not_known_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blur_tails(monkeypatch, lambda tail: tail._replace(delete_without_tombstone=False))
    assert_caught()


def test_a_dead_letter_that_lacks_pieces_and_is_not_known_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tails, "unfinished", lambda _headers: False)
    assert_caught()


def test_a_letter_of_rows_that_is_taken_for_the_events_own_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have one position."""

    def known(replay: KafkaReplay, _topic: str, position: Position) -> bool:
        return any(position == at for _, at in replay._letters)

    monkeypatch.setattr(KafkaReplay, "lettered", known)
    assert any(fault(seed) for seed in SEEDS)


def test_a_topic_that_no_mark_names_before_its_first_record_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MarkWriter, "record_topics", lambda *_: None)
    assert_caught()


def test_a_dead_letter_that_what_follows_overtakes_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Producer, "_hand_over", _all_at_once)
    assert any(DIFFERS in flipped(seed) for seed in SEEDS)


def _all_at_once(producer: Producer) -> None:
    while producer._behind:
        producer._send(*producer._behind.popleft())


def test_a_dead_letter_that_is_not_known_by_its_position_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "read_letters", lambda *_: frozenset())
    assert any(DIFFERS in flipped(seed) for seed in SEEDS)
