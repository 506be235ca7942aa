"""The checker: from the topics alone, was everything published once and in order? Pure.

Each check gives findings, one line each; none means that it holds. What "everything" is, the
clients of the workload know (``tests.chaos.workload.truth``), and the tables as they are at the
end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from cdc.lsn import Position
from cdc.topics import dead_letters_topic, message_topic, table_topic, transaction_topic
from tests.chaos.checks.dead_letters import dead_letters
from tests.chaos.checks.emitted_events import placed, topics_of_events
from tests.chaos.checks.log import Log, Partition, Record
from tests.chaos.checks.progress_marks import confirmed, marks
from tests.chaos.checks.transaction_metadata import told_transactions
from tests.chaos.checks.transactions import at, transactions
from tests.chaos.workload.tables import JOINING, TABLES
from tests.chaos.workload.truth import Truth

Findings = Iterator[str]


def check_stream(
    log: Log,
    truth: Truth,
    source: str,
    snapshot_lsn: int,
    metadata: bool = False,
    limit: int | None = None,
) -> list[str]:
    """Every check but the one that compares tables (``tests.chaos.checks.fold``), of a log to which
    dead letters were put back (``tests.chaos.checks.dead_letters``).

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
    """In a partition positions of streamed events only rise, and snapshot rows stand before, but
    for those of a table that joins."""
    for place, records in log.events.items():
        last = Position(0, 0)
        for record in records:
            if record.streamed:
                if record.position <= last:
                    went = f"{at(record.position)} after {at(last)}"
                    yield f"{_name(place, record)}: position goes back, {went}"
                last = max(last, record.position)
            elif record.value is not None and last > Position(0, 0) and not _joins(place):
                yield f"{_name(place, record)}: a snapshot row behind the stream"
    for place, told in log.told.items():
        last = Position(0, 0)
        for one in told if not place[0].endswith(dead_letters_topic("")) else []:
            if one.position <= last:
                went = f"{at(one.position)} after {at(last)}"
                yield f"{place[0]}[{place[1]}] at {one.offset}: position goes back, {went}"
            last = max(last, one.position)


def tombstones(log: Log) -> Findings:
    """Right behind every delete of a key its tombstone, and none anywhere else."""
    for place, records in log.events.items():
        owed: str | None = None
        for record in _without_rows(records) if _joins(place) else records:
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
        for position in sorted({one for counted in partitions.values() for one in counted}):
            counts = {partition: counted[position] for partition, counted in partitions.items()}
            if set(counts.values()) != {1}:
                yield f"{topic}: truncate at {at(position)} stands {counts} times by partition"


def versions(log: Log) -> Findings:
    """The versions of a row are events in the order in which they were made, none left out."""
    for place, records in log.events.items():
        current: dict[str, int] = {}
        whole = not _joins(place)
        for record in _without_rows(records) if _joins(place) else records:
            if record.value is None or record.op == "m":
                continue
            if record.op == "t":
                current, whole = {}, True
            elif record.key is None:
                continue  # rows without a key cannot be told apart
            elif record.op == "d":
                if current.pop(record.key, None) is None and whole:
                    yield f"{_name(place, record)}: {record.key} is deleted and does not exist"
            else:
                n, before = int(record.value["after"]["n"]), current.get(record.key)
                if before is None and not whole:
                    pass  # a row of before the table joined
                elif record.op == "u" and n != (-1 if before is None else before) + 1:
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


def _joins(place: Partition) -> bool:
    return place[0].endswith(table_topic("", JOINING.schema, JOINING.name))


def _without_rows(records: list[Record]) -> list[Record]:
    """Rows of a snapshot come from another process: they may stand anywhere."""
    return [record for record in records if record.value is None or record.streamed]
