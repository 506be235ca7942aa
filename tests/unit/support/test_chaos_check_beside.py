"""The chaos checker on what stands beside tables: emitted events, transactions and dead letters.
As in ``test_chaos_check``: a good log, then one with a single fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cdc.events.capture_dead_letters import DeadLetters
from cdc.events.records import Record as Made
from cdc.lsn import Position
from tests.chaos.checks.dead_letters import with_letters
from tests.chaos.checks.fold import check_tables
from tests.chaos.checks.log import Log, Record, Sample, Told
from tests.chaos.checks.stream import check_stream
from tests.chaos.options import majors, options
from tests.chaos.workload.outbox import event_token
from tests.chaos.workload.truth import Change, Truth
from tests.unit.support.test_chaos_check import ITEM, MESSAGES, SNAPSHOT, committed, good

ORDERS, TRANSACTIONS, LETTERS = "s.outbox.orders", "s.transaction", "s.__dead_letters"
LIMIT = 4_000
LARGE = "x" * 6_000


def told(offset: int, key: str | None, value: object, at: tuple[int, int], **headers: str) -> Told:
    """``value``: text, or a document."""
    text = value if isinstance(value, str) else json.dumps(value)
    named = {"position": Position(*at).hex(), **headers}
    pairs = [(name, said.encode()) for name, said in named.items()]
    return Told(offset, None if key is None else key.encode(), text.encode(), pairs)


def event(offset: int, id_: str, at: tuple[int, int], payload: str = "paid") -> Told:
    return told(offset, "a", payload, at, id=id_, kind="made")


def ends(offset: int, xid: int, lsn: int, counts: dict[str, int]) -> list[Told]:
    """BEGIN and END of a transaction."""
    id_, total = f"{xid}:{lsn}", sum(counts.values())
    key = json.dumps({"id": id_})
    named = [{"data_collection": name, "event_count": n} for name, n in counts.items()]
    none = {"event_count": None, "data_collections": None}
    done = {"event_count": total, "data_collections": named}
    return [
        told(offset, key, {"status": "BEGIN", "id": id_, **none}, (lsn, 1)),
        told(offset + 1, key, {"status": "END", "id": id_, **done}, (lsn, total + 1)),
    ]


def pieces(offset: int, topic: str, key: bytes, value: bytes, at: tuple[int, int]) -> list[Told]:
    """A dead letter as capture writes it."""
    letters = DeadLetters("s", LIMIT, lambda _topic, _position, _size: None)
    record: Made = {"key": key, "value": value}
    if topic == ORDERS:
        said = Position(*at).hex().encode()
        record["headers"] = [("id", b"large"), ("kind", b"made"), ("position", said)]
    made = letters.pieces(topic, record, Position(*at))
    return [
        Told(offset + i, None, piece["value"], list(piece["headers"]))
        for i, piece in enumerate(made)
    ]


def bytes_of(record: Record) -> bytes:
    assert record.value is not None
    return json.dumps({**record.value, "padding": LARGE}).encode()


def whole() -> tuple[Log, Truth]:
    """The good log with events in transaction 30 and in one of their own, 50, all of it told of;
    the delete of item 1 and the event ``large`` are dead letters."""
    log, truth, _ = good()
    item, free = "public.item", "public.no_key"
    large = LARGE.encode()
    changes = [Change("e", "outbox.orders", "a", event_token("first", b"paid"))]
    truth.committed[1].changes += changes
    alone = [("second", b"sent"), ("large", large), ("third", b"sent")]
    made = [Change("e", "outbox.orders", "a", event_token(id_, text)) for id_, text in alone]
    truth.commit(committed(4, 50, 420, 460, *made))
    _tell(log)
    deleted = log.events[ITEM, 0].pop(2)
    orders = [event(0, "first", (300, 4))]
    orders += [event(i, id_, (450, 2 * i - 1), "sent") for i, id_ in ((1, "second"), (2, "third"))]
    log.told = {
        (ORDERS, 0): orders,
        (TRANSACTIONS, 0): [
            *ends(0, 20, 200, {item: 3}),
            *ends(2, 30, 300, {item: 1, free: 1, "message": 1, "outbox.orders": 1}),
            *ends(4, 40, 400, {item: 2, free: 1}),
            *ends(6, 50, 450, {"outbox.orders": 3}),
        ],
        (LETTERS, 0): [
            *pieces(0, ITEM, b'{"id":1}', bytes_of(deleted), (200, 2)),
            *pieces(3, ORDERS, b"a", large, (450, 2)),
        ],
    }
    return log, truth


def _tell(log: Log) -> None:
    """Give the events of transactions their blocks, and what a block is made of."""
    counts: dict[tuple[int, str], int] = {}
    found = [
        (r.position, topic, r) for (topic, _), rs in log.events.items() for r in rs if r.streamed
    ]
    seen: dict[tuple[Position, str], int] = {}
    for at, topic, record in sorted(found, key=lambda one: one[:2]):
        assert record.value is not None
        source = record.value["source"]
        source |= {"schema": "public", "table": topic.rpartition(".")[2]}
        if source["txId"] is None:
            continue
        if (at, topic) not in seen:
            number = counts.get((at.commit_lsn, topic), 0) + 1
            counts[at.commit_lsn, topic] = seen[at, topic] = number
        record.value["transaction"] = {
            "id": f"{source['txId']}:{at.commit_lsn}",
            "total_order": at.ordinal,
            "data_collection_order": seen[at, topic],
        }


def findings(log: Log, truth: Truth, limit: int | None = LIMIT) -> list[str]:
    return check_stream(with_letters(log, "s"), truth, "s", SNAPSHOT, metadata=True, limit=limit)


def test_a_good_log_is_found_to_be_good() -> None:
    log, truth = whole()
    assert findings(log, truth) == []
    contents = good()[2]
    assert list(check_tables(with_letters(log, "s"), contents, "s")) == []


def drop(topic: str, *indexes: int) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        for index in sorted(indexes, reverse=True):
            del log.told[topic, 0][index]

    return change


def double(topic: str, index: int, count: int = 1) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        records = log.told[topic, 0]
        records[index + count : index + count] = records[index : index + count]

    return change


def swap(topic: str, index: int) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        records = log.told[topic, 0]
        records[index], records[index + 1] = records[index + 1], records[index]

    return change


def put(topic: str, index: int, new: Told, partition: int = 0) -> Callable[[Log], None]:
    return lambda log: log.told.setdefault((topic, partition), []).insert(index, new)


def told_as(index: int, **values: Any) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        records = log.told[TRANSACTIONS, 0]
        value = json.loads(records[index].value or b"") | values
        records[index] = records[index]._replace(value=json.dumps(value).encode())

    return change


def block(topic: str, partition: int, index: int, **values: object) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        value = log.events[topic, partition][index].value
        assert value is not None
        value["transaction"] = {**(value["transaction"] or {}), **values}

    return change


def written_too(log: Log) -> None:
    """The dead letter stands in its topic as well."""
    letter = with_letters(log, "s").events[ITEM, 0][2]
    log.events[ITEM, 0].insert(2, letter._replace(offset=2))


def sampled(sample: Sample) -> Callable[[Log], None]:
    return lambda log: log.samples.append(sample)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (drop(ORDERS, 0), "lost 1 x Change(op='e'"),
        (drop(ORDERS, 1), "ordinals are not 1 to 2"),
        (double(ORDERS, 0), "s.outbox.orders[0] at 0: position goes back"),
        (double(ORDERS, 0), "surplus 1 x Change(op='e'"),
        (swap(ORDERS, 1), "s.outbox.orders[0] at 1: position goes back"),
        (put(ORDERS, 3, event(9, "other", (470, 1))), "event other at 0/1D6/1 was rolled back"),
        (put(ORDERS, 1, event(9, "second", (310, 1))), "has several commit LSNs"),
        (put(ORDERS, 0, event(9, "first", (300, 4)), 1), "not the partition of key b'a'"),
        (drop(TRANSACTIONS, 0), "the topic of transactions lacks 1 x"),
        (drop(TRANSACTIONS, 7), "the topic of transactions lacks 1 x"),
        (drop(TRANSACTIONS, 2, 3), "the topic of transactions lacks 1 x"),
        (double(TRANSACTIONS, 1), "the topic of transactions has 1 x"),
        (double(TRANSACTIONS, 0, 2), "the topic of transactions has 1 x"),
        (swap(TRANSACTIONS, 1), "has another order, from record 2 on"),
        (told_as(1, event_count=2), "'event_count': 2"),
        (told_as(1, data_collections=[]), "'collections': []"),
        (told_as(0, id="20:201"), "20:201"),
        (block(ITEM, 0, 1, total_order=2), "says {'id': '20:200', 'total_order': 2"),
        (block(ITEM, 1, 0, data_collection_order=1), "'data_collection_order': 1} of its"),
        (block(MESSAGES, 0, 1, id="30:1"), "says {'id': '30:1'"),
        (drop(LETTERS, 0), "pieces are missing"),
        (drop(LETTERS, 1), "pieces are missing"),
        (drop(LETTERS, 0, 1, 2), "lost 1 x Change(op='d'"),
        (drop(LETTERS, 0, 1, 2), "a tombstone of"),
        (drop(LETTERS, 3, 4), "lost 1 x Change(op='e'"),
        (double(LETTERS, 0, 3), "stands after 00000000000000C800000002"),
        (double(LETTERS, 0, 3), "surplus 1 x Change(op='d'"),
        (written_too, "position goes back, 0/C8/2 after 0/C8/2"),
        (put(ORDERS, 2, event(9, "large", (450, 2), LARGE)), "position goes back, 0/1C2/2"),
        (sampled(Sample(201, {(LETTERS, 0): 2})), "0/C8 was not in it"),
        (sampled(Sample(301, {(ORDERS, 0): 0})), "0/12C was not in it"),
        (sampled(Sample(401, {(TRANSACTIONS, 0): 5})), "0/190 was not in it"),
    ],
)
def test_each_fault_is_found(fault: Callable[[Log], None], said: str) -> None:
    log, truth = whole()
    fault(log)
    assert any(said in finding for finding in findings(log, truth)), findings(log, truth)


def test_what_nobody_asked_for_is_found() -> None:
    log, truth = whole()
    assert any("and the limit is 9000" in finding for finding in findings(log, truth, 9_000))
    log.events[ITEM, 0][1] = log.events[ITEM, 0][1]._replace(size=LIMIT + 1)
    assert any("4001 bytes, too large" in finding for finding in findings(log, truth))
    unasked = check_stream(with_letters(log, "s"), truth, "s", SNAPSHOT)
    for topic in (TRANSACTIONS, LETTERS):
        assert f"{topic} is the topic of nothing that is captured" in unasked
    assert any("tells of its transaction, unasked" in finding for finding in unasked)


def test_pieces_that_a_restart_began_again_are_one_letter() -> None:
    log, truth = whole()
    records = log.told[LETTERS, 0]
    records[2:2] = records[0:2]
    assert findings(log, truth) == []


def test_the_same_seed_draws_the_same_and_together_seeds_draw_it_all() -> None:
    assert options(7) == options(7)
    drawn = [options(seed) for seed in range(1, 60)]
    assert majors(range(1, 60)) == ["16", "18"]
    assert {one.metadata for one in drawn} == {True, False}
    assert len({one.limit for one in drawn}) == 3
    for one in drawn:
        assert "message.max.bytes" not in one.toml(streaming=False)
        assert ("dead_letter" in one.toml(streaming=True)) == (one.limit is not None)
