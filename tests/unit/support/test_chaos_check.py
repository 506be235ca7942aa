"""The chaos checker objects to each thing that may go wrong: it is given a good log, then one
with a single fault."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from cdc.lsn import Position
from tests.chaos.checks.fold import check_tables
from tests.chaos.checks.log import Log, Partition, Record, Sample
from tests.chaos.checks.stream import check_stream
from tests.chaos.faults.capture import FAULTS, TABLE_JOINS
from tests.chaos.faults.plan import WEIGHTS, plan
from tests.chaos.workload.tables import TABLES
from tests.chaos.workload.truth import Change, Transaction, Truth

ITEM, FREE, MESSAGES = "s.public.item", "s.public.no_key", "s.message"
SNAPSHOT = 100


def record(
    offset: int,
    op: str,
    key: int | None,
    at: tuple[int, int],
    xid: int | None,
    row: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
) -> Record:
    source = {"commit_lsn": at[0], "ordinal": at[1], "txId": xid, "schema_id": "v1"}
    value = {"op": op, "before": before, "after": row, "source": source, "transaction": None}
    return Record(offset, None if key is None else f'{{"id":{key}}}', value)


def tombstone(offset: int, key: int) -> Record:
    return Record(offset, f'{{"id":{key}}}', None)


def message(offset: int, at: tuple[int, int], xid: int | None, content: str) -> Record:
    made = record(offset, "m", None, at, xid)
    assert made.value is not None
    made.value["message"] = {
        "prefix": "chaos",
        "content": b64encode(content.encode()).decode(),
    }
    return made._replace(key='{"prefix":"chaos"}')


def row(number: int, token: int, n: int) -> dict[str, Any]:
    return {"id": number, "token": token, "n": n}


def events() -> dict[Partition, list[Record]]:
    """A snapshot row, three transactions at 200, 300 and 400, and a message between them."""
    return {
        (ITEM, 0): [
            record(0, "r", 1, (SNAPSHOT, 0), None, row(1, 1, 3)),
            record(1, "u", 1, (200, 1), 20, row(1, 2, 4)),
            record(2, "d", 1, (200, 2), 20, None, {"id": 1, "token": None, "n": None}),
            tombstone(3, 1),
            record(4, "c", 1, (300, 1), 30, row(1, 4, 0)),
            record(5, "t", None, (400, 1), 40),
            record(6, "c", 5, (400, 2), 40, row(5, 6, 0)),
        ],
        (ITEM, 1): [
            record(0, "c", 2, (200, 3), 20, row(2, 3, 4)),
            record(1, "t", None, (400, 1), 40),
        ],
        (FREE, 0): [
            record(0, "c", None, (300, 2), 30, row(7, 5, 0)),
            record(1, "u", None, (400, 3), 40, row(7, 7, 1), row(7, 5, 0)),
        ],
        (FREE, 1): [],
        (MESSAGES, 0): [message(0, (250, 1), None, "alone"), message(1, (300, 3), 30, "in")],
        (MESSAGES, 1): [],
    }


def committed(worker: int, xid: int, began: int, ended: int, *changes: Change) -> Transaction:
    return Transaction(worker, xid, began, list(changes), ended)


def truth_of_events() -> Truth:
    truth = Truth()
    item, free = "public.item", "public.no_key"
    moved = Change("u", item, '{"id":1}', 2), Change("d", item, '{"id":1}')
    again = Change("c", item, '{"id":1}', 4), Change("c", free, None, 5)
    truth.commit(committed(1, 20, 150, 210, *moved, Change("c", item, '{"id":2}', 3)))
    truth.commit(committed(2, 30, 220, 310, *again, Change("m", "chaos", None, "in")))
    last = Change("c", item, '{"id":5}', 6), Change("u", free, None, 7)
    truth.commit(committed(1, 40, 320, 410, Change("t", item), *last))
    truth.message("alone", True)
    truth.roll_back(77)
    return truth


def good() -> tuple[Log, Truth, dict[str, list[dict[str, str | None]]]]:
    """A log as it should be, what was done at the source, and what its tables hold at the end."""
    ends = {(ITEM, 0): 1, (ITEM, 1): 0}, {(ITEM, 0): 4, (ITEM, 1): 1}
    log = Log(
        events=events(),
        marks=[
            {"lsn": 99, "confirmed": 100, "offsets": {ITEM: {"0": 1, "1": 0}}},
            {"lsn": 200, "confirmed": 201, "offsets": {ITEM: {"0": 4, "1": 1}}},
        ],
        schemas={"v1": {"columns": [{"name": name} for name in ("id", "token", "n")]}},
        samples=[Sample(100, ends[0]), Sample(201, ends[1])],
    )
    contents: dict[str, list[dict[str, str | None]]] = {table.label: [] for table in TABLES}
    contents["public.item"] = [{"id": "5", "token": "6", "n": "0", "later": None}]
    contents["public.no_key"] = [{"id": "7", "token": "7", "n": "1"}]
    return log, truth_of_events(), contents


def findings(log: Log, truth: Truth, contents: dict[str, list[dict[str, str | None]]]) -> list[str]:
    return check_stream(log, truth, "s", SNAPSHOT) + list(check_tables(log, contents, "s"))


def remove(topic: str, partition: int, index: int) -> Callable[[Log], None]:
    return lambda log: log.events[topic, partition].__delitem__(index)


def double(topic: str, partition: int, index: int) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        records = log.events[topic, partition]
        records.insert(index, copy.deepcopy(records[index]))

    return change


def swap(topic: str, partition: int, index: int) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        records = log.events[topic, partition]
        records[index], records[index + 1] = records[index + 1], records[index]

    return change


def put(topic: str, partition: int, index: int, new: Record) -> Callable[[Log], None]:
    return lambda log: log.events[topic, partition].insert(index, new)


def at(topic: str, partition: int, index: int, position: Position) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        value = log.events[topic, partition][index].value
        assert value is not None
        value["source"] |= {"commit_lsn": position.commit_lsn, "ordinal": position.ordinal}

    return change


def after(topic: str, partition: int, index: int, **values: object) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        value = log.events[topic, partition][index].value
        assert value is not None
        value["after"] |= values

    return change


def sampled(sample: Sample) -> Callable[[Log], None]:
    return lambda log: log.samples.append(sample)


def marked(lsn: int, offsets: dict[str, dict[str, int]]) -> Callable[[Log], None]:
    mark = {"lsn": lsn, "confirmed": lsn + 1, "offsets": offsets}
    return lambda log: log.marks.append(mark)


def test_a_good_log_is_found_to_be_good() -> None:
    assert findings(*good()) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda log: log.events.update({("s.public.parts_0", 0): []}), "is the topic of nothing"),
        (remove(ITEM, 0, 1), "lost 1 x Change(op='u'"),
        (remove(ITEM, 0, 4), "lost 1 x Change(op='c'"),
        (remove(ITEM, 1, 0), "lost 1 x Change(op='c'"),
        (remove(FREE, 0, 1), "lost 1 x Change(op='u'"),
        (remove(FREE, 0, 1), "public.no_key: token 7 stands 0 times"),
        (remove(ITEM, 0, 6), "is not in the events"),
        (remove(ITEM, 0, 3), "no tombstone before it"),
        (double(ITEM, 0, 3), "a tombstone of"),
        (put(ITEM, 0, 2, tombstone(9, 1)), "without its delete"),
        (remove(ITEM, 1, 1), "truncate at 0/190/1 stands"),
        (remove(MESSAGES, 0, 0), "message alone outside of transactions stands 0 times"),
        (double(MESSAGES, 0, 0), "message alone outside of transactions stands 2 times"),
        (remove(MESSAGES, 0, 1), "lost 1 x Change(op='m'"),
        (put(MESSAGES, 0, 1, message(9, (260, 1), None, "x")), "message x was never sent"),
        (double(ITEM, 0, 1), "position goes back"),
        (double(ITEM, 0, 1), "surplus 1 x Change(op='u'"),
        (double(ITEM, 0, 4), "is created and exists"),
        (swap(ITEM, 0, 5), "position goes back"),
        (put(ITEM, 1, 1, record(9, "c", 8, (210, 1), 77, row(8, 9, 0))), "was rolled back"),
        (put(ITEM, 1, 1, record(9, "c", 8, (210, 1), 78, row(8, 9, 0))), "is nobody's"),
        (put(ITEM, 1, 1, record(9, "r", 8, (100, 0), None, row(8, 9, 0))), "behind the stream"),
        (put(ITEM, 1, 1, record(9, "u", 2, (200, 4), 20, row(2, 3, 9))), "has version 9 after 4"),
        (put(ITEM, 1, 1, record(9, "d", 8, (200, 4), 20)), "is deleted and does not exist"),
        (at(ITEM, 1, 0, Position(201, 3)), "has several commit LSNs"),
        (at(ITEM, 1, 0, Position(200, 4)), "ordinals are not 1 to 3"),
        (at(FREE, 0, 0, Position(300, 4)), "ordinals are not 1 to 3"),
        (after(ITEM, 0, 6, token=60), "token is '60' in the events, '6' in the table"),
        (after(ITEM, 0, 6, unknown=1), "its columns are not those of its schema"),
        (lambda log: log.schemas.clear(), "its schema is not in __schemas"),
        (sampled(Sample(201, {(ITEM, 0): 2})), "0/C8 was not in it"),
        (sampled(Sample(200, {})), "confirmed LSN goes back"),
        (marked(300, {ITEM: {"0": 4}}), "leaves 0/12C out of"),
        (marked(150, {}), "a mark goes back"),
        (marked(200, {ITEM: {"0": 3}}), "goes back in s.public.item[0] to 3"),
    ],
)
def test_each_fault_is_found(fault: Callable[[Log], None], said: str) -> None:
    log, truth, contents = good()
    fault(log)
    assert any(said in finding for finding in findings(log, truth, contents)), findings(
        log, truth, contents
    )


def test_a_transaction_that_is_missing_whole_is_lost_unless_the_snapshot_may_hold_it() -> None:
    log, truth, contents = good()
    change = Change("c", "public.item", '{"id":9}', 90)
    truth.commit(Transaction(3, 90, SNAPSHOT - 10, [change], SNAPSHOT + 10))
    assert findings(log, truth, contents) == []
    truth.commit(Transaction(3, 91, SNAPSHOT, [change], SNAPSHOT + 20))
    assert any("transaction 91 is lost: 1 changes" in f for f in findings(log, truth, contents))


def test_transactions_of_one_client_in_another_order_are_found() -> None:
    log, truth, contents = good()
    truth.committed[0].worker = truth.committed[1].worker = 3
    truth.committed[:2] = reversed(truth.committed[:2])
    assert any("came after 30" in finding for finding in findings(log, truth, contents))


def test_a_commit_outside_of_the_time_of_its_transaction_is_found() -> None:
    log, truth, contents = good()
    truth.committed[2].ended_lsn = 399
    assert any("outside of its time" in finding for finding in findings(log, truth, contents))


def test_changes_of_a_transaction_in_another_order_are_found() -> None:
    log, truth, contents = good()
    changes = truth.committed[0].changes
    changes[1], changes[2] = changes[2], changes[1]
    assert any("other order" in finding for finding in findings(log, truth, contents))


def test_an_unchanged_value_is_taken_from_the_version_before() -> None:
    log, truth, contents = good()
    contents["public.wide"] = [{"tenant": "t1", "ref": "r", "token": "9", "n": "1", "big": "B"}]
    key = '{"ref":"r","tenant":"t1"}'
    image = {"tenant": "t1", "ref": "r", "token": 9, "n": 0, "big": "B"}
    update = image | {"n": 1, "big": "__debezium_unavailable_value"}
    made = [record(0, "c", None, (200, 1), 1, image), record(1, "u", None, (300, 1), 2, update)]
    log.events["s.public.wide", 0] = [made._replace(key=key) for made in made]
    assert list(check_tables(log, contents, "s")) == []
    del log.events["s.public.wide", 0][0]
    (finding,) = check_tables(log, contents, "s")
    assert "big is '__debezium_unavailable_value' in the events, 'B' in the table" in finding
    assert truth


def test_the_same_seed_plans_the_same_faults_and_together_seeds_have_them_all() -> None:
    assert plan(7) == plan(7)
    planned = {step.fault for seed in range(1, 60) for step in plan(seed)}
    assert planned == FAULTS.keys()
    assert FAULTS.keys() - WEIGHTS.keys() == {
        "broker killed",
        "server killed",
        TABLE_JOINS,
    }
    assert json.dumps(plan(7)) != json.dumps(plan(8))
