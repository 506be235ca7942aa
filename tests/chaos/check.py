"""The checker: from the topics alone, was everything published once and in order? Pure.

Each check gives findings, one line each; none means that it holds. What "everything" is, the
clients of the workload know (``tests.chaos.truth``), and the tables as they are at the end.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from cdc.lsn import Position, format_lsn
from cdc.topics import dead_letters_topic, message_topic, table_topic, transaction_topic
from tests.chaos.letters import dead_letters
from tests.chaos.log import Log, Partition, Record
from tests.chaos.metadata import told_transactions
from tests.chaos.outbox import emitted, emitted_by, placed, topics_of_events
from tests.chaos.progress import confirmed, marks
from tests.chaos.tables import BY_LABEL, TABLES
from tests.chaos.truth import Change, Transaction, Truth

Findings = Iterator[str]
PREFIX: Final = "chaos"
"""Of the messages that the workload sends; capture may send some of its own."""


def check_stream(
    log: Log,
    truth: Truth,
    source: str,
    snapshot_lsn: int,
    metadata: bool = False,
    limit: int | None = None,
) -> list[str]:
    """Every check but the one that compares tables (``tests.chaos.fold``), of a log to which dead
    letters were put back (``tests.chaos.letters``).

    ``snapshot_lsn``: what committed below it is in the snapshot, and not in the stream.
    ``metadata``: transactions are told of. ``limit``: what is larger is a dead letter.
    """
    return [
        *topics(log, truth, source, metadata, limit),
        *positions(log),
        *tombstones(log),
        *truncates(log),
        *transactions(log, truth, source, snapshot_lsn),
        *versions(log),
        *confirmed(log),
        *marks(log),
        *described(log),
        *placed(log, source),
        *told_transactions(log, truth, source, metadata),
        *dead_letters(log, limit),
    ]


def topics(log: Log, truth: Truth, source: str, metadata: bool, limit: int | None) -> Findings:
    """There are no topics but those of what is captured, and of what was asked for."""
    known = {table_topic(source, t.schema, t.name) for t in TABLES} | {message_topic(source)}
    known |= topics_of_events(truth, source)
    known |= {transaction_topic(source)} if metadata else set()
    known |= set() if limit is None else {dead_letters_topic(source)}
    for topic in sorted({topic for topic, _ in (*log.events, *log.told)} - known):
        yield f"{topic} is the topic of nothing that is captured"


def positions(log: Log) -> Findings:
    """In a partition positions of streamed events only rise, and snapshot rows stand before."""
    for place, records in log.events.items():
        last = Position(0, 0)
        for record in records:
            if record.streamed:
                if record.position <= last:
                    went = f"{_at(record.position)} after {_at(last)}"
                    yield f"{_name(place, record)}: position goes back, {went}"
                last = max(last, record.position)
            elif record.value is not None and last > Position(0, 0):
                yield f"{_name(place, record)}: a snapshot row behind the stream"
    for place, told in log.told.items():
        last = Position(0, 0)
        for one in told if not place[0].endswith(dead_letters_topic("")) else []:
            if one.position <= last:
                went = f"{_at(one.position)} after {_at(last)}"
                yield f"{place[0]}[{place[1]}] at {one.offset}: position goes back, {went}"
            last = max(last, one.position)


def tombstones(log: Log) -> Findings:
    """Right behind every delete of a key its tombstone, and none anywhere else."""
    for place, records in log.events.items():
        owed: str | None = None
        for record in records:
            if record.value is None:
                if record.key is None or record.key != owed:
                    yield f"{_name(place, record)}: a tombstone of {record.key} without its delete"
                owed = None
                continue
            if owed is not None:
                yield f"{_name(place, record)}: no tombstone before it, for {owed}"
            owed = record.key if record.op == "d" else None
        if owed is not None:
            yield f"{place[0]}[{place[1]}]: ends without the tombstone of {owed}"


def truncates(log: Log) -> Findings:
    """A truncate stands once in every partition of its topic."""
    seen: dict[str, dict[int, Counter[Position]]] = defaultdict(dict)
    for (topic, partition), records in log.events.items():
        seen[topic][partition] = Counter(r.position for r in records if r.op == "t")
    for topic, partitions in seen.items():
        for position in sorted({at for counted in partitions.values() for at in counted}):
            counts = {partition: counted[position] for partition, counted in partitions.items()}
            if set(counts.values()) != {1}:
                yield f"{topic}: truncate at {_at(position)} stands {counts} times by partition"


def transactions(log: Log, truth: Truth, source: str, snapshot_lsn: int) -> Findings:
    """Each committed transaction once, whole, with its changes in their order; no other."""
    streamed, messages = _by_transaction(log, source)
    xids = emitted_by(truth)
    for id_, position, change in emitted(log, source):
        if id_ in xids:
            streamed[xids[id_]].append((position, change))
        else:
            yield f"event {id_} at {_at(position)} was rolled back, or emitted by nobody"
    for events in streamed.values():
        events.sort(key=lambda event: event[0])
    known = {transaction.xid: transaction for transaction in truth.committed}
    for xid, events in streamed.items():
        if xid not in known:
            ended = "was rolled back" if xid in truth.rolled_back else "is nobody's"
            yield f"transaction {xid} at {_at(events[0][0])} {ended}: {len(events)} events"
    for transaction in truth.committed:
        yield from _transaction(transaction, streamed.get(transaction.xid, []), snapshot_lsn)
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
        yield f"{name} at {_at(events[0][0])}: ordinals are not 1 to {len(events)}, each once"


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


def versions(log: Log) -> Findings:
    """The versions of a row are events in the order in which they were made, none left out."""
    for place, records in log.events.items():
        current: dict[str, int] = {}
        for record in records:
            if record.value is None or record.op == "m":
                continue
            if record.op == "t":
                current = {}
            elif record.key is None:
                continue  # rows without a key cannot be told apart
            elif record.op == "d":
                if current.pop(record.key, None) is None:
                    yield f"{_name(place, record)}: {record.key} is deleted and does not exist"
            else:
                n, before = int(record.value["after"]["n"]), current.get(record.key)
                if record.op == "u" and n != (-1 if before is None else before) + 1:
                    yield f"{_name(place, record)}: {record.key} has version {n} after {before}"
                elif record.op != "u" and before is not None:
                    yield f"{_name(place, record)}: {record.key} is created and exists"
                current[record.key] = n


def described(log: Log) -> Findings:
    """Every version of a table that an event names is in ``__schemas``, with its columns."""
    for place, records in log.events.items():
        for record in records:
            if record.value is None or record.op == "m":
                continue
            schema = log.schemas.get(record.value["source"]["schema_id"])
            if schema is None:
                yield f"{_name(place, record)}: its schema is not in __schemas"
                continue
            row = record.value.get("after")
            if row is not None and list(row) != [c["name"] for c in schema["columns"]]:
                yield f"{_name(place, record)}: its columns are not those of its schema"


def _name(place: Partition, record: Record) -> str:
    return f"{place[0]}[{place[1]}] at {record.offset}"


def _at(position: Position) -> str:
    return f"{format_lsn(position.commit_lsn)}/{position.ordinal}"
