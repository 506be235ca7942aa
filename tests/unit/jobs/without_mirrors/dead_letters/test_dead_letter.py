"""Letters of a view as records of Kafka, and back; how the poison of a batch is searched."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import HeadwaterError, LogError, ViewError
from cdc.events.records import Record as Sent
from cdc.kafka.broker import Record
from cdc.lsn import Position
from headwater.lag.parked_counts import waiting_keys
from jobs.without_mirrors.dead_letters.bisection import failing
from jobs.without_mirrors.dead_letters.letter import (
    Fate,
    Letter,
    by_generation,
    fate,
    letter_record,
    row_letter,
    settled_record,
)

if TYPE_CHECKING:
    from cdc.lag.measure import PartitionLag

VALUE = b'{"op":"u","source":{"commit_lsn":7,"ordinal":2},"after":{"name":"secret"}}'
POISON = Letter(
    "shop.public.t", 1, 17, b'{"id":1}', VALUE, len(VALUE), Position(7, 2), 1_000, 2_000, "too much"
)
BEHIND_IT = POISON._replace(offset=18, position=Position(8, 1), cause="")
FOREIGN = POISON._replace(partition=0, key=None, value=b"\xff", size=1, position=None)


def kept(*sent: Sent) -> list[Record]:
    """Records as they are read back."""
    return [
        Record(0, i, 0, one["key"], one["value"], one.get("headers", []))
        for i, one in enumerate(sent)
    ]


def test_letters_come_back_as_they_were_written() -> None:
    sent = [letter_record("g", one) for one in (POISON, BEHIND_IT, FOREIGN)]
    found = by_generation(kept(*sent, *sent, letter_record("h", POISON)), values=True)
    assert list(found["g"].open.values()) == [POISON, BEHIND_IT, FOREIGN]
    assert list(found["h"].open) == ["shop.public.t-1-17"]
    assert found["g"].keys == {POISON.owner: [POISON, BEHIND_IT]}
    assert (found["g"].keyless, found["g"].parked) == ([FOREIGN], 2)


def test_a_settled_letter_waits_no_more_and_is_remembered() -> None:
    records = [letter_record("g", POISON), settled_record("g", POISON.id)]
    (found,) = by_generation(kept(*records)).values()
    assert (found.open, found.settled, found.parked) == ({}, {POISON.id}, 0)
    (again,) = by_generation(kept(*records, letter_record("g", POISON))).values()
    assert (list(again.open), again.settled) == ([POISON.id], set())


@pytest.mark.parametrize("key", [None, b"", b"no letter"])
def test_what_is_no_letter_is_told(key: bytes | None) -> None:
    with pytest.raises(LogError, match="holds a record that is not a dead letter"):
        by_generation([Record(0, 0, 0, key, b"x")])


def test_a_letter_without_its_headers_is_none() -> None:
    with pytest.raises(LogError, match="holds a record that is not a dead letter"):
        by_generation([Record(0, 0, 0, b"g/t-0-1", b"x")])


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"null", b'{"op":"c"}', b"[" * 100_000])
def test_what_is_no_event_has_no_fate(value: bytes) -> None:
    assert fate(value) == Fate("", None)
    assert fate(VALUE) == Fate("u", Position(7, 2))


@given(st.sets(st.integers()), st.sets(st.integers()), st.integers(0, 30))
def test_the_search_finds_what_fails_and_nothing_else(
    items: set[int], bad: set[int], at_most: int
) -> None:
    asked: list[Sequence[int]] = []

    def fault_of(part: Sequence[int]) -> HeadwaterError | None:
        asked.append(part)
        return ViewError("bad") if bad & set(part) else None

    ordered = sorted(items)
    found = failing(ordered, fault_of, at_most)
    assert found.keys() <= items & bad
    assert len(found) == min(len(items & bad), at_most + 1)
    bits = len(ordered).bit_length()
    assert len(asked) <= 1 + 2 * (at_most + 1) * (bits + 1)


ROW = row_letter("v", b'{"id":"7"}', Position(9, 4), 1_000, 2_000, "refused")
OTHER = POISON._replace(topic="shop.public.u", offset=3)


def test_a_row_of_the_view_has_a_letter_of_its_own_and_tables_share_no_key() -> None:
    sent = [letter_record("g", one) for one in (POISON, OTHER, ROW, ROW._replace(cause="again"))]
    found = by_generation(kept(*sent), values=True)["g"]
    assert found.keys == {POISON.owner: [POISON], OTHER.owner: [OTHER]}
    assert found.rows == {b'{"id":"7"}': ROW._replace(cause="again")}
    assert (found.parked, found.keyless) == (3, [])
    (settled,) = by_generation(kept(*sent[2:], settled_record("g", ROW.id))).values()
    assert settled.parked == 0


def test_lag_counts_keys_where_they_wait_and_rows_of_a_view_once() -> None:
    lines = [SimpleNamespace(view="v", topic=topic, partition=p) for topic, p in PLACES]
    views = cast("list[PartitionLag]", lines)
    parked = {("v", "t", 1): 2, ("v", "u", 1): 3, ("v", "v", -1): 4}
    assert waiting_keys(views, parked) == [4, 2, 3]


PLACES = (("t", 0), ("t", 1), ("u", 1))
