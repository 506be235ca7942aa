"""Events that clients emitted with no table, as they stand in their topics. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.lsn import Position
from cdc.topics import outbox_topic, partition_for
from tests.chaos.checks.log import Log, Told
from tests.chaos.workload.outbox import event_token
from tests.chaos.workload.truth import Change, Truth


def emitted_by(truth: Truth) -> dict[str, int]:
    """The transactions of all committed events, by the id that ``emit`` gave."""
    return {
        str(change.token).split()[0]: transaction.xid
        for transaction in truth.committed
        for change in transaction.changes
        if change.op == "e"
    }


def topics_of_events(truth: Truth, source: str) -> set[str]:
    """Kafka's topics of all committed events."""
    changes = (change for transaction in truth.committed for change in transaction.changes)
    return {f"{source}.{change.what}" for change in changes if change.op == "e"}


def emitted(log: Log, source: str) -> Iterator[tuple[str, Position, Change]]:
    """What stands in the topics of events: id, position, and the change it tells of."""
    for (topic, _), records in log.told.items():
        if not topic.startswith(outbox_topic(source, "")):
            continue
        for record in records:
            key = None if record.key is None else record.key.decode()
            id_ = record.header("id")
            what = topic.removeprefix(f"{source}.")
            yield id_, record.position, Change("e", what, key, event_token(id_, record.value))


def placed(log: Log, source: str) -> Iterator[str]:
    """Findings where an event stands in another partition than its key's, or has lost a header."""
    counts: dict[str, int] = {}
    for topic, _ in log.told:
        counts[topic] = counts.get(topic, 0) + 1
    for (topic, partition), records in log.told.items():
        if not topic.startswith(outbox_topic(source, "")):
            continue
        for record in records:
            yield from _misplaced(record, topic, partition, counts[topic])


def _misplaced(record: Told, topic: str, partition: int, count: int) -> Iterator[str]:
    at = f"{topic}[{partition}] at {record.offset}"
    if partition_for(record.key, count) != partition:
        yield f"{at}: not the partition of key {record.key!r}"
    if record.header("kind") != "made":
        yield f"{at}: its header kind is {record.header('kind')!r}"
