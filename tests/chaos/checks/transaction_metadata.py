"""Transaction metadata, in ``<source>.transaction`` and in events, compared with the events. Pure.

What is to be counted are the events that stand in the topics, and whether those are all is another
check's question: a transaction that is lost whole is found there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from cdc.lsn import Position, format_lsn
from cdc.topics import message_topic, transaction_topic
from tests.chaos.checks.emitted_events import emitted, emitted_by
from tests.chaos.checks.log import Log, Record, Told
from tests.chaos.workload.truth import Truth

_SHOWN: Final = 3


class _Event(NamedTuple):
    """``block`` is what the event says of its transaction; an emitted one says nothing."""

    ordinal: int
    collection: str
    xid: int
    block: dict[str, Any] | None = None


def told_transactions(log: Log, truth: Truth, source: str, asked: bool) -> Iterator[str]:
    """Each transaction with events has its BEGIN and its END, once, in commit order and with the
    right counts, and each event says its place; nothing of that when it was not asked for."""
    if not asked:
        for (topic, partition), records in log.events.items():
            for record in records:
                if record.streamed and _block(record) is not None:
                    at = f"{topic}[{partition}] at {record.offset}"
                    yield f"{at}: tells of its transaction, unasked"
        return
    wanted: list[dict[str, Any]] = []
    for commit_lsn, events in sorted(_events(log, truth, source).items()):
        events.sort()
        wanted += _records(commit_lsn, events)
        yield from _blocks(commit_lsn, events)
    topic = transaction_topic(source)
    found = [_told(record) for record in log.told.get((topic, 0), [])]
    yield from _different(wanted, found)


def _block(record: Record) -> dict[str, Any] | None:
    assert record.value is not None
    block: dict[str, Any] | None = record.value["transaction"]
    return block


def _events(log: Log, truth: Truth, source: str) -> Mapping[int, list[_Event]]:
    """By commit LSN, of transactions alone, a TRUNCATE once a table."""
    found: dict[int, dict[int, _Event]] = defaultdict(dict)
    for (topic, _), records in log.events.items():
        for record in records:
            if not record.streamed:
                continue
            assert record.value is not None
            from_ = record.value["source"]
            if from_["txId"] is None:
                continue
            messages = topic == message_topic(source)
            collection = "message" if messages else f"{from_['schema']}.{from_['table']}"
            lsn, ordinal = record.position
            found[lsn][ordinal] = _Event(ordinal, collection, from_["txId"], _block(record))
    xids = emitted_by(truth)
    for id_, (lsn, ordinal), change in emitted(log, source):
        if id_ in xids:
            found[lsn][ordinal] = _Event(ordinal, change.what, xids[id_])
    return {lsn: list(events.values()) for lsn, events in found.items()}


def _records(commit_lsn: int, events: list[_Event]) -> list[dict[str, Any]]:
    counts = Counter(event.collection for event in events)
    id_ = f"{events[0].xid}:{commit_lsn}"
    collections = [{"data_collection": name, "event_count": n} for name, n in counts.items()]
    begin = Position(commit_lsn, events[0].ordinal).hex()
    end = Position(commit_lsn, events[-1].ordinal + 1).hex()
    return [
        {"at": begin, "status": "BEGIN", "id": id_, "event_count": None, "collections": None},
        {
            "at": end,
            "status": "END",
            "id": id_,
            "event_count": len(events),
            "collections": collections,
        },
    ]


def _told(record: Told) -> dict[str, Any]:
    value = orjson.loads(record.value or b"{}")
    key = orjson.loads(record.key or b"{}")
    return {
        "at": record.position.hex(),
        "status": value.get("status"),
        "id": value.get("id") if key == {"id": value.get("id")} else f"{key}: {value.get('id')}",
        "event_count": value.get("event_count"),
        "collections": value.get("data_collections"),
    }


def _blocks(commit_lsn: int, events: list[_Event]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for event in events:
        counts[event.collection] += 1
        wanted = {
            "id": f"{event.xid}:{commit_lsn}",
            "total_order": event.ordinal,
            "data_collection_order": counts[event.collection],
        }
        if event.block != wanted and not event.collection.startswith("outbox."):
            at = f"{format_lsn(commit_lsn)}/{event.ordinal}"
            yield f"the event at {at} says {event.block} of its transaction, not {wanted}"


def _different(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    if wanted == found:
        return
    texts = [list(map(str, records)) for records in (wanted, found)]
    missing, surplus = Counter(texts[0]) - Counter(texts[1]), Counter(texts[1]) - Counter(texts[0])
    for what, records in (("lacks", missing), ("has", surplus)):
        for text, times in list(records.items())[:_SHOWN]:
            yield f"the topic of transactions {what} {times} x {text} ({len(records)} such records)"
    if not missing and not surplus:
        i = next(i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b)
        yield f"the topic of transactions has another order, from record {i + 1} on: {found[i]}"
