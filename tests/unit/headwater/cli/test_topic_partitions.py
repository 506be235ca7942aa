"""Where partitions may be added: a mark has to cover all that the topic holds. No server."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.capture.reconciliation import check_topics
from cdc.config import Config
from cdc.errors import LogError, UsageError, ViewError
from cdc.events.marks import Mark, decode_mark
from headwater.cli.topics import partitions
from headwater.cli.topics.partitions import Addition, growing, with_partitions
from jobs.spark.faults import stream_error
from jobs.without_mirrors.regrouped_topics import across

TOPIC, ROWS = "shop.public.orders", "shop.rows"


def mark(floors: dict[int, int] | None = None) -> Mark:
    offsets = {TOPIC: {0: 10, 1: 4}}
    of_topic = {TOPIC: floors} if floors else {}
    return Mark(900, offsets, "7", 1, "shop", "headwater_shop", floors=of_topic)


def config(alerts: dict[str, Any] | None = None) -> Config:
    source = {"name": "shop", "dsn": "x", "tables": ["public.*"]}
    document: dict[str, Any] = {"source": source, "kafka": {"bootstrap_servers": "h:1"}}
    document["apply"] = {"state": "s"}
    if alerts:
        document["alerts"] = {"secret_file": "s", "rows": alerts}
    return Config.model_validate(document)


@pytest.mark.parametrize(
    ("ends", "count"),
    [
        ({0: 10, 1: 4}, 3),
        ({0: 10, 1: 4, 2: 0}, 3),  # an earlier run was interrupted
        ({0: 10, 1: 4, 2: 0}, 5),
    ],
)
def test_a_mark_covers_what_ends_where_it_says(ends: dict[int, int], count: int) -> None:
    assert growing(mark(), {TOPIC: ends}, count) == {TOPIC: 2}


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
        growing(mark(floors), {TOPIC: ends}, 3)


@pytest.mark.parametrize(
    ("ends", "count"),
    [({0: 10, 1: 4}, 2), ({0: 10, 1: 4}, 1), ({0: 10, 1: 4, 2: 0, 3: 0}, 3)],
)
def test_partitions_cannot_be_removed(ends: dict[int, int], count: int) -> None:
    with pytest.raises(UsageError, match=f"has {len(ends)} partitions"):
        growing(mark(), {TOPIC: ends}, count)


def test_new_partitions_that_somebody_wrote_to_are_refused() -> None:
    with pytest.raises(LogError, match="records that it did not write"):
        growing(mark(), {TOPIC: {0: 10, 1: 4, 2: 1}}, 3)


def beside(rows: dict[int, int]) -> Mark:
    """Of a table with rows beside its events."""
    events = mark()
    return events._replace(offsets={**events.offsets, ROWS: rows})


@pytest.mark.parametrize("extended", [(), (TOPIC,), (ROWS,), (TOPIC, ROWS)])
def test_a_killed_command_is_run_again_whichever_topic_it_had_extended(
    extended: tuple[str, ...],
) -> None:
    known = beside({0: 8, 1: 3})
    ends = {topic: dict(of_topic) for topic, of_topic in known.offsets.items()}
    for topic in extended:
        ends[topic] |= {2: 0, 3: 0}
    if extended:
        with pytest.raises(LogError, match=r"headwater topics add-partitions"):
            check_topics(known, ends)  # no capture begins in between
    before = growing(known, ends, 4)
    assert before == {TOPIC: 2, ROWS: 2}
    grown = {topic: of_topic | {2: 0, 3: 0} for topic, of_topic in ends.items()}
    noted = with_partitions(known, Addition(before, 4, ()))
    check_topics(noted, grown)
    assert noted.offsets == grown
    assert noted.regrouped == known.offsets
    with pytest.raises(UsageError, match="already has 4 partitions"):
        growing(noted, grown, 4)


def test_a_topic_that_another_table_has_extended_is_passed_over() -> None:
    known = beside({0: 8, 1: 3, 2: 0, 3: 9})
    assert growing(known, known.offsets, 4) == {TOPIC: 2}
    assert growing(known, known.offsets, 3) == {TOPIC: 2}
    assert growing(known, known.offsets, 5) == {TOPIC: 2, ROWS: 4}
    noted = with_partitions(known, Addition({TOPIC: 2}, 4, ()))
    assert (noted.offsets[ROWS], noted.regrouped) == (known.offsets[ROWS], {TOPIC: {0: 10, 1: 4}})


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({0: 9, 1: 3}, "shop.rows holds records of transactions that no progress mark covers"),
        ({0: 8, 1: 3, 2: 1}, "shop.rows has 3 partitions, and capture knew 2"),
    ],
)
def test_what_no_mark_covers_of_the_rows_is_refused_as_of_the_events(
    ends: dict[int, int], said: str
) -> None:
    known = beside({0: 8, 1: 3})
    with pytest.raises(LogError, match=said):
        growing(known, {**known.offsets, ROWS: ends}, 4)


def test_partitions_that_no_mark_names_stay_in_the_way_of_fewer() -> None:
    known = beside({0: 8, 1: 3})
    ends = {**known.offsets, ROWS: {0: 8, 1: 3, 2: 0, 3: 0, 4: 0}}
    with pytest.raises(UsageError, match=r"shop\.rows already has 5 partitions"):
        growing(known, ends, 4)


@pytest.mark.parametrize(
    ("committed", "said"),
    [
        ({0: 10, 1: 3}, "has not looked at, or not delivered, 1 records"),
        ({0: 10, 1: 4}, ""),
        ({}, ""),
    ],
)
def test_an_alert_with_messages_to_send_keeps_the_partitions_as_they_are(
    committed: dict[int, int], said: str
) -> None:
    alert = {"table": "public.orders", "when": "op = 'd'", "webhook": "http://localhost:1/"}
    of = config(alerts={"big": alert})
    groups = {"headwater.shop.__alerts.big": {TOPIC: committed}}
    broker: Any = SimpleNamespace(committed=lambda group, _topics: groups[group])
    ends = {0: 10, 1: 4}
    refused: AbstractContextManager[Any] = nullcontext()
    if said:
        refused = pytest.raises(LogError, match=said)
    with refused:
        partitions._refuse_undelivered(of, broker, {"public.orders"}, TOPIC, ends)
    partitions._refuse_undelivered(of, broker, {"public.other"}, TOPIC, ends)


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
    refused: AbstractContextManager[Any] = nullcontext()
    if said:
        refused = pytest.raises(ViewError, match=said)
    with refused:
        ends = {0: 10, 1: 4} if committed else {0: 0, 1: 0}
        partitions._refuse_behind(config(), broker, "v", TOPIC, ends)
