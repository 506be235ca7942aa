"""Do the topics hold each committed transaction, once and whole? Pure."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from cdc.lsn import Position, format_lsn
from cdc.topics import message_topic, table_topic
from tests.chaos.checks.emitted_events import emitted, emitted_by
from tests.chaos.checks.log import Log, Record
from tests.chaos.workload.tables import BY_LABEL, JOINING, TABLES
from tests.chaos.workload.truth import Change, Transaction, Truth

Findings = Iterator[str]
PREFIX: Final = "chaos"
"""Of the messages that the workload sends; capture may send some of its own."""


def transactions(log: Log, truth: Truth, source: str, snapshot_lsn: int) -> Findings:
    """Each committed transaction once, whole, with its changes in their order; no other."""
    streamed, messages = _by_transaction(log, source)
    xids = emitted_by(truth)
    for id_, position, change in emitted(log, source):
        if id_ in xids:
            streamed[xids[id_]].append((position, change))
        else:
            yield f"event {id_} at {at(position)} was rolled back, or emitted by nobody"
    for events in streamed.values():
        events.sort(key=lambda event: event[0])
    known = {transaction.xid: transaction for transaction in truth.committed}
    for xid, events in streamed.items():
        if xid not in known:
            ended = "was rolled back" if xid in truth.rolled_back else "is nobody's"
            yield f"transaction {xid} at {at(events[0][0])} {ended}: {len(events)} events"
    for transaction in truth.committed:
        events = streamed.get(transaction.xid, [])
        made = replace(transaction, changes=_captured(transaction, events, truth))
        yield from _transaction(made, events, snapshot_lsn)
    yield from _real_time_order(truth, streamed)
    for content, written in truth.messages.items():
        times = messages.pop(content, 0)
        if times > 1 or (written and not times):
            yield f"message {content} outside of transactions stands {times} times"
    for content in messages:
        yield f"message {content} was never sent"


def _transaction(
    transaction: Transaction, events: list[tuple[Position, Change]], snapshot_lsn: int
) -> Findings:
    name = f"transaction {transaction.xid}"
    if not events:
        if transaction.changes and transaction.began_lsn >= snapshot_lsn:
            yield f"{name} is lost: {len(transaction.changes)} changes, {transaction.changes[0]}"
        return
    if transaction.ended_lsn is not None and transaction.ended_lsn <= snapshot_lsn:
        yield f"{name} is in the stream, and committed below the snapshot"
    commits = sorted({position.commit_lsn for position, _ in events})
    if len(commits) > 1:
        yield f"{name} has several commit LSNs: {', '.join(map(format_lsn, commits))}"
    late = transaction.ended_lsn is not None and commits[-1] > transaction.ended_lsn
    if commits[0] < transaction.began_lsn or late:
        yield f"{name} has a commit LSN outside of its time: {format_lsn(commits[0])}"
    yield from _same(name, transaction.changes, [change for _, change in events])
    if [p.ordinal for p, _ in events] != list(range(1, len(events) + 1)):
        yield f"{name} at {at(events[0][0])}: ordinals are not 1 to {len(events)}, each once"


def _captured(
    transaction: Transaction, events: list[tuple[Position, Change]], truth: Truth
) -> list[Change]:
    """Its changes, but for those of a table that had not joined. Of one that was open as it joined
    those that were streamed are left out of nothing else's order."""
    ended = transaction.ended_lsn
    if transaction.began_lsn >= truth.joined_lsn:
        return transaction.changes
    streamed = Counter(change for _, change in events)
    found = []
    for change in transaction.changes:
        if change.what == JOINING.label:
            if (ended is not None and ended <= truth.joins_lsn) or not streamed[change]:
                continue
            streamed[change] -= 1
        found.append(change)
    return found


def _same(name: str, made: list[Change], found: list[Change]) -> Findings:
    made, found = _settled(made), _settled(found)
    if made == found:
        return
    lost, surplus = Counter(made) - Counter(found), Counter(found) - Counter(made)
    for what, changes in (("lost", lost), ("surplus", surplus)):
        for change, times in list(changes.items())[:3]:
            yield f"{name}: {what} {times} x {change} ({len(changes)} such changes)"
    if not lost and not surplus:
        i = next(i for i, (a, b) in enumerate(zip(made, found, strict=True)) if a != b)
        yield f"{name}: other order, change {i + 1} is {found[i]} and was {made[i]}"


def _settled(changes: list[Change]) -> list[Change]:
    """A TRUNCATE of several tables has no order among them. Messages, emitted events too, have one
    only among themselves: the server gives them the LSN of whatever comes next, and with savepoints
    sorts the two as it happens."""
    messages = [change for change in changes if change.op in ("m", "e")]
    changes = [change for change in changes if change.op not in ("m", "e")]
    settled: list[Change] = []
    for is_truncate, changes_of in groupby(changes, key=lambda change: change.op == "t"):
        run = list(changes_of)
        settled += sorted(run) if is_truncate else run
    return settled + messages


def _by_transaction(
    log: Log, source: str
) -> tuple[dict[int, list[tuple[Position, Change]]], Counter[str]]:
    """Streamed events of transactions in their order, and contents of messages outside of any."""
    labels = {table_topic(source, t.schema, t.name): t.label for t in TABLES}
    found: dict[int, list[tuple[Position, Change]]] = defaultdict(list)
    messages: Counter[str] = Counter()
    for (topic, partition), records in log.events.items():
        for record in records:
            if not record.streamed or (record.op == "t" and partition > 0):
                continue
            assert record.value is not None
            xid = record.value["source"]["txId"]
            if topic == message_topic(source):
                change = _message(record)
                if change is None:
                    continue
                if xid is None:
                    messages[str(change.token)] += 1
                    continue
            else:
                change = _change(labels.get(topic, topic), record)
            found[xid].append((record.position, change))
    return found, messages


def _change(label: str, record: Record) -> Change:
    assert record.value is not None
    value = record.value
    row = value["before"] if record.op == "d" else value.get("after")
    table = BY_LABEL.get(label)
    shown = record.op != "d" or (table is not None and table.full)
    return Change(str(record.op), label, record.key, row["token"] if row and shown else None)


def _message(record: Record) -> Change | None:
    assert record.value is not None
    message = record.value["message"]
    if message["prefix"] != PREFIX:
        return None
    return Change("m", PREFIX, None, b64decode(message["content"]).decode())


def _real_time_order(
    truth: Truth, streamed: Mapping[int, list[tuple[Position, Change]]]
) -> Findings:
    """One client's transactions follow each other, so do their commit LSNs."""
    last: dict[int, tuple[int, int]] = {}
    for transaction in truth.committed:
        events = streamed.get(transaction.xid)
        if not events:
            continue
        commit = events[0][0].commit_lsn
        before, xid = last.get(transaction.worker, (0, 0))
        if commit <= before:
            yield (
                f"transaction {transaction.xid} at {format_lsn(commit)} came after {xid} "
                f"at {format_lsn(before)}"
            )
        last[transaction.worker] = commit, transaction.xid


def at(position: Position) -> str:
    """A position, for findings."""
    return f"{format_lsn(position.commit_lsn)}/{position.ordinal}"
