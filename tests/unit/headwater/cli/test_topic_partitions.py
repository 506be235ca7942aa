"""Where partitions may be added: a mark has to cover all that the topic holds. No server."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.config import Config
from cdc.errors import LogError, UsageError, ViewError
from cdc.events.marks import Mark, decode_mark
from headwater.cli.topics import partitions
from headwater.cli.topics.partitions import refuse
from jobs.spark.faults import stream_error
from jobs.without_mirrors.regrouped_topics import across

TOPIC = "shop.public.orders"


def mark(floors: dict[int, int] | None = None) -> Mark:
    offsets = {TOPIC: {0: 10, 1: 4}}
    of_topic = {TOPIC: floors} if floors else {}
    return Mark(900, offsets, "7", 1, "shop", "headwater_shop", floors=of_topic)


@pytest.mark.parametrize(
    ("ends", "count"),
    [
        ({0: 10, 1: 4}, 3),
        ({0: 10, 1: 4, 2: 0}, 3),  # an earlier run was interrupted
        ({0: 10, 1: 4, 2: 0}, 5),
    ],
)
def test_a_mark_covers_what_ends_where_it_says(ends: dict[int, int], count: int) -> None:
    refuse(mark(), TOPIC, ends, count)


@pytest.mark.parametrize(
    ("floors", "ends"),
    [
        (None, {0: 11, 1: 4}),  # records of a transaction that no mark tells of
        ({1: 3}, {0: 10, 1: 4}),  # counted by the mark, and of a later transaction
        (None, {0: 10}),  # it lost a partition
    ],
)
def test_what_no_mark_covers_is_refused(
    floors: dict[int, int] | None, ends: dict[int, int]
) -> None:
    with pytest.raises(LogError, match="no progress mark covers"):
        refuse(mark(floors), TOPIC, ends, 3)


@pytest.mark.parametrize(
    ("ends", "count"),
    [({0: 10, 1: 4}, 2), ({0: 10, 1: 4}, 1), ({0: 10, 1: 4, 2: 0, 3: 0}, 3)],
)
def test_partitions_cannot_be_removed(ends: dict[int, int], count: int) -> None:
    with pytest.raises(UsageError, match=f"has {len(ends)} partitions"):
        refuse(mark(), TOPIC, ends, count)


def test_new_partitions_that_somebody_wrote_to_are_refused() -> None:
    with pytest.raises(LogError, match="records that it did not write"):
        refuse(mark(), TOPIC, {0: 10, 1: 4, 2: 1}, 3)


def test_marks_remember_where_keys_changed_their_partition() -> None:
    regrouped = {TOPIC: {0: 10, 1: 4}}
    assert decode_mark(mark()._replace(regrouped=regrouped).encode(0), "t").regrouped == regrouped
    assert decode_mark(mark().encode(0), "t").regrouped == {}


@pytest.mark.parametrize(
    ("begin", "oldest", "place"),
    [
        ({0: 10, 1: 4}, {}, ""),
        ({0: 12, 1: 4, 2: 3}, {}, ""),
        ({0: 10, 1: 3}, {}, f"{TOPIC}-1-3"),
        ({}, {}, f"{TOPIC}-0-0"),
        ({}, {0: 10, 1: 4, 2: 0}, ""),  # retention removed what was before
    ],
)
def test_a_stream_that_begins_before_more_partitions_reads_across(
    begin: dict[int, int], oldest: dict[int, int], place: str
) -> None:
    assert across({TOPIC: {0: 10, 1: 4}}, {TOPIC: begin, "other": {}}, {TOPIC: oldest}) == place


def test_a_stream_that_met_new_partitions_as_it_started_starts_again() -> None:
    said = "assertion failed: If startingOffsets contains specific offsets, you must specify all "
    found = stream_error(RuntimeError(f"{said}TopicPartitions."))
    assert type(found).__name__ == "RetryableError"
    assert "more partitions" in found.message


@pytest.mark.parametrize(
    ("building", "committed", "parked", "said"),
    [
        (True, {0: 10, 1: 4}, 0, "generation 1 is being built"),
        (False, {0: 10, 1: 3}, 0, "has not applied 1 records of"),
        (False, {}, 0, "was not built yet"),
        (False, {0: 10, 1: 4}, 2, "events of 2 keys of shop.public.orders wait as dead letters"),
        (False, {0: 10, 1: 4}, 0, ""),
    ],
)
def test_a_view_that_lacks_something_keeps_the_partitions_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
    building: bool,
    committed: dict[int, int],
    parked: int,
    said: str,
) -> None:
    of = {1: SimpleNamespace(building=building, number=1)}
    keys = {("v", TOPIC, 0): parked, ("v", "another", 0): 5}
    monkeypatch.setattr(partitions, "read_generations", lambda _at: SimpleNamespace(of=of))
    monkeypatch.setattr(partitions, "ParkedKeys", lambda *_: SimpleNamespace(now=lambda: keys))
    broker: Any = SimpleNamespace(
        committed=lambda _group, _topics: {TOPIC: committed} if committed else {}
    )
    source = {"name": "shop", "dsn": "x", "tables": ["public.*"]}
    config = Config.model_validate(
        {"source": source, "kafka": {"bootstrap_servers": "h:1"}, "apply": {"state": "s"}}
    )
    refused: AbstractContextManager[Any] = nullcontext()
    if said:
        refused = pytest.raises(ViewError, match=said)
    with refused:
        ends = {0: 10, 1: 4} if committed else {0: 0, 1: 0}
        partitions._refuse_behind(config, broker, "v", TOPIC, ends)
