"""What capture knows of a table at a position, by the versions that Kafka was told of."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import cast

import pytest

from cdc.capture import published_versions as attnums
from cdc.capture.published_versions import Attnums
from cdc.events.records import schema_record
from cdc.kafka.broker import Broker
from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.source.catalog import TableFacts
from cdc.source.relations import describe

INT4 = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
OID = 16400


def relation(*columns: tuple[int | None, str], oid: int = OID) -> Relation:
    made = tuple(Column(name, INT4, -1, name == "id", True, attnum) for attnum, name in columns)
    return Relation(oid, "public", "t", "d", made, ("id",))


FIRST = relation((1, "id"), (2, "a"), (4, "b"))
SECOND = relation((1, "id"), (2, "a"))
THIRD = relation((1, "id"), (2, "c"))
UNKNOWN = relation((None, "id"), (None, "x"))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """The topic of schemas; its records are to be written into it."""
    held: dict[bytes, bytes] = {}
    monkeypatch.setattr(attnums, "read_compacted", lambda _broker, _topic: held)
    return held


def write(kafka: dict[bytes, bytes], one: Relation, lsn: int) -> None:
    record = schema_record(one, lsn)
    assert record["key"]
    assert record["value"]
    kafka[record["key"]] = record["value"]


def known(found: Attnums, lsn: int, oid: int = OID) -> tuple[list[int], int] | None:
    before = found.before(oid, lsn)
    return before and ([column.attnum for column in before.columns], before.highest)


def opened() -> Attnums:
    return Attnums(cast("Broker", None), "s")


def test_what_a_later_position_had_says_nothing_of_an_earlier_one(
    kafka: dict[bytes, bytes],
) -> None:
    write(kafka, FIRST, 100)
    write(kafka, THIRD, 300)  # by a snapshot, or by capture before it was killed
    found = opened()
    assert [known(found, lsn) for lsn in (100, 200, 300)] == [None, ([1, 2, 4], 4), ([1, 2, 4], 4)]
    assert known(found, 301) == ([1, 2], 4)
    assert known(found, 301, OID + 1) is None
    found.completed(SECOND, 200)
    assert known(found, 201) == ([1, 2], 4)


def test_of_two_versions_in_one_transaction_either_came_first(kafka: dict[bytes, bytes]) -> None:
    """So what one of them had says nothing of what had been until the other."""
    write(kafka, SECOND, 100)
    write(kafka, FIRST, 100)
    assert known(opened(), 101) in (([1, 2], 2), ([1, 2, 4], 4))


def test_kafka_is_asked_once_for_each_version_that_is_not_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = []

    def read(_broker: Broker, topic: str) -> dict[bytes, bytes]:
        reads.append(topic)
        return {}

    monkeypatch.setattr(attnums, "read_compacted", read)
    found = opened()
    for lsn in range(100, 110):
        found.completed(UNKNOWN, lsn)
        found.completed(relation((None, "id"), oid=OID + 1), lsn)
    assert len(reads) == 3


Shape = tuple[tuple[tuple[int | None, str], ...], int]
"""The columns, and the highest attnum there was."""


def altered(shape: Shape, rng: random.Random, name: str) -> Shape:
    """With a column added, dropped or renamed."""
    columns, highest = shape
    at, change = rng.randrange(len(columns)), rng.choice(["add", "drop", "rename"])
    if change == "add" or len(columns) == 1:
        return (*columns, (highest + 1, name)), highest + 1
    instead = () if change == "drop" else ((columns[at][0], name),)
    return (*columns[:at], *instead, *columns[at + 1 :]), highest


def test_what_is_told_is_right_or_nothing(kafka: dict[bytes, bytes]) -> None:
    """Of names that are not used again: the catalog is ahead, snapshots too, several versions have
    one position, and capture starts anew and goes over what was."""
    for seed in range(500):
        kafka.clear()
        tell(kafka, seed)


def tell(kafka: dict[bytes, bytes], seed: int) -> None:
    """One history, and what capture makes of it."""
    rng, unused = random.Random(seed), (f"c{n}" for n in count())
    shape: Shape = (((1, "id"),), 1)
    history: list[tuple[int, Shape]] = []
    lsn = 100
    for _ in range(rng.randint(3, 9)):
        lsn += rng.choice([0, 10, 10])
        for _ in range(rng.randint(0, 2)):
            shape = altered(shape, rng, next(unused))
        history.append((lsn, shape))
    # What a snapshot and the catalog show are the last versions of their transactions.
    ends = [max(i for i, one in enumerate(history) if one[0] == lsn) for lsn, _ in history]
    ahead = rng.choice(ends)
    write(kafka, relation(*history[ahead][1][0]), history[ahead][0] + 5)
    found, at, seen, starts = opened(), 0, ahead, 2
    while at < len(history):
        lsn, (columns, _) = history[at]
        seen = max(seen, ends[min(at + rng.choice([0, 0, 1, 2, 4]), len(history) - 1)])
        now, highest = history[seen][1]
        sent = tuple(RelationColumn(name, INT4.oid, -1, False) for _, name in columns)
        message = RelationMessage(OID, "public", "t", "d", sent)
        facts = TableFacts({}, (), (), tuple((n, INT4.oid, -1, a or 0) for a, n in now), highest)
        before = found.before(OID, lsn)
        told = found.completed(describe(message, facts, {INT4.oid: INT4}, (), before), lsn)
        write(kafka, told, lsn)
        said = [column.attnum for column in told.columns]
        assert said in ([attnum for attnum, _ in columns], [None] * len(columns)), f"seed {seed}"
        at += 1
        if starts and rng.random() < 0.2:
            starts, found, at = starts - 1, opened(), rng.randrange(at)
            at = min(i for i, one in enumerate(history) if one[0] == history[at][0])


def test_a_version_whose_position_is_not_known_is_before_none(kafka: dict[bytes, bytes]) -> None:
    kafka[b"old"] = json.dumps(FIRST.describe()).encode()
    write(kafka, UNKNOWN, 50)
    assert known(opened(), 100) is None


def test_a_version_is_what_it_was_told_to_be_by_whom_soever(kafka: dict[bytes, bytes]) -> None:
    found = opened()
    assert found.completed(UNKNOWN, 100) == UNKNOWN
    now = relation((1, "id"), (3, "x"))
    other = relation((None, "id"), (None, "y"))
    write(kafka, relation((1, "id"), (3, "y")), 400)  # meanwhile, by a snapshot
    assert [column.attnum for column in found.completed(other, 150).columns] == [1, 3]
    assert found.completed(now, 200) == now
    assert [column.attnum for column in found.completed(UNKNOWN, 300).columns] == [1, 3]
