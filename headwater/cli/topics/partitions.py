"""More partitions for the topic of a table, or of emitted events.

Keys move to other partitions then. The order of a key's changes holds if all that came before is
applied, and if no change that is in Kafka is published again: capture knows what it has published
by the end of each partition, and the new ones are empty. So it begins only where capture has
stopped, the newest progress mark covers all that the topic holds, and each view is at its end. The
new partitions are then noted in a mark, without which capture refuses a topic that has more. The
slot is held meanwhile, so that no capture starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from time import time_ns
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import LogError, SourceError, UsageError, ViewError
from cdc.events.mark_records import StoredMark, mark_records
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.bulk_producer import BulkProducer
from cdc.kafka.marks import newest_mark, own_mark
from cdc.routes.patterns import parse_pattern
from cdc.source.catalog import chosen_tables
from cdc.source.postgres import Connection, connect
from cdc.source.replication import ReplicationStream
from cdc.source.slot import identify, slot_state
from cdc.topics import outbox_topic, progress_topic, view_group
from headwater.lag.parked_counts import ParkedKeys
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import view_directory
from jobs.state.views.undeclared_views import with_undeclared
from verification.view_positions import unapplied
from views.parse.table_references import tables_read

_AGAIN = "start `headwater capture`, stop it with SIGTERM once `headwater lag` shows no lag"
_EMITTED = "outbox."


class Addition(NamedTuple):
    """``topic`` has ``before`` partitions by the newest mark, and gets ``partitions``."""

    topic: str
    before: int
    partitions: int
    views: tuple[str, ...]
    """Those that read it; each has applied all of it."""


def planned(config: Config, name: str, count: int) -> Addition:
    """What is to be done; nothing is changed. ``name``: ``schema.table``, or ``outbox.TOPIC``.

    Raises ``SourceError`` while capture runs, ``LogError`` where the topic holds what no mark
    covers, ``ViewError`` where a view lacks records, ``UsageError`` for a table that is not
    captured or has as many partitions.
    """
    with (
        Broker(config.kafka.bootstrap_servers, config.kafka) as broker,
        connect(config.source.dsn, application_name="headwater topics") as conn,
    ):
        return _checked(config, broker, conn, name, count)[0]


def carry_out(config: Config, name: str, count: int) -> Addition:
    """Look again while no capture can start, add the partitions, and note them."""
    source = config.source
    with (
        Broker(config.kafka.bootstrap_servers, config.kafka) as broker,
        connect(source.dsn, application_name="headwater topics") as conn,
    ):
        _, mark = _checked(config, broker, conn, name, count)
        slot, publication = source.slot_name, source.publication_name
        with closing(ReplicationStream(source.dsn, slot, publication, mark.confirmed)) as held:
            found, mark = _checked(config, broker, conn, name, count, held.pid)
            broker.add_partitions(found.topic, count)
            held.feedback(mark.confirmed, mark.confirmed, time_ns() // 1000, ask=False)
            held.receive(1)  # raises where the slot is not ours any more
            _note(config, broker, mark, found)
    return found


def _checked(
    config: Config, broker: Broker, conn: Connection, name: str, count: int, ours: int | None = None
) -> tuple[Addition, Mark]:
    source = config.source
    slot = slot_state(conn, source.slot_name)
    if slot is not None and slot.active and slot.active_pid != ours:
        raise SourceError(
            f"capture is running: server process {slot.active_pid} serves its slot",
            "stop `headwater capture`, then run this again",
        )
    mark = own_mark(broker, source.name, identify(conn))
    label, topic = _captured(config, conn, mark, name)
    ends = broker.end_offsets([topic])[topic]
    refuse(mark, topic, ends, count)
    views = tuple(_reading(config, label))
    for view in views:
        _refuse_behind(config, broker, view, topic, ends)
    return Addition(topic, len(mark.offsets[topic]), count, views), mark


def refuse(mark: Mark, topic: str, ends: Mapping[int, int], count: int) -> None:
    """Raise where a topic that ends there must not have ``count`` partitions. Pure."""
    before = len(mark.offsets[topic])
    if any(ends.get(number) != at for number, at in mark.searched_from[topic].items()):
        raise LogError(  # it would be published again, some of it in another partition
            f"{topic} holds records of transactions that no progress mark covers: capture was "
            "not stopped with SIGTERM, or a snapshot writes to the topic",
            f"{_AGAIN}; let a running `table add` end first",
        )
    if any(ends[number] for number in range(before, len(ends))):
        raise LogError(
            f"{topic} has {len(ends)} partitions, and capture knew {before}: the new ones hold "
            "records that it did not write",
            "run `headwater init --again`",
        )
    if count < len(ends) or count == before:
        raise UsageError(
            f"{topic} already has {len(ends)} partitions",
            "choose a larger number: partitions cannot be removed",
        )


def _captured(config: Config, conn: Connection, mark: Mark, name: str) -> tuple[str, str]:
    """The table's label and topic; for emitted events no label."""
    source, emitted = config.source, name.removeprefix(_EMITTED)
    try:
        pattern = parse_pattern(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    found = [
        (one.label, topic)
        for one in chosen_tables(conn, source)[0]
        if pattern.matches(one.schema, one.name)
        and (topic := source.topic(one.schema, one.name)) in mark.offsets
    ]
    outbox = outbox_topic(source.name, emitted)
    if not found and emitted in config.capture.emit_topics and outbox in mark.offsets:
        return "", outbox
    if len(found) != 1:
        raise UsageError(
            f"{name} is {'more than one table' if found else 'not captured'}",
            "name one captured table as schema.table, or a topic of headwater.emit that has "
            "events as outbox.TOPIC",
        )
    return found[0]


def _reading(config: Config, label: str) -> Iterator[str]:
    """Views of the table, declared or built."""
    for name, view in with_undeclared(config).views.items():
        try:
            read = {table.name for table in tables_read(name, view.sql)}
        except ViewError:  # no view can be made of it
            continue
        if label in read:
            yield name


def _refuse_behind(
    config: Config, broker: Broker, view: str, topic: str, ends: Mapping[int, int]
) -> None:
    directory = view_directory(config.apply.state, config.source.name, view)
    if building := [one for one in read_generations(directory).of.values() if one.building]:
        raise ViewError(
            f"view {view}: generation {building[0].number} is being built",
            "wait until it is live, or drop it with `headwater view drop --generation`",
        )
    committed: Offsets = broker.committed(view_group(view), [topic])
    if behind := unapplied({topic: dict(ends)}, committed):
        lacks = sum(one.records for one in behind)
        raise ViewError(
            f"view {view} has not applied {lacks} records of {topic}"
            if lacks
            else f"view {view} was not built yet",
            f"let `headwater apply` run until `headwater lag {view}` shows no records, or drop "
            "the view; then run this again",
        )
    parked = ParkedKeys(config, broker, [view]).now()
    if keys := sum(count for (_, of, _), count in parked.items() if of == topic):
        raise ViewError(
            f"view {view}: events of {keys} keys of {topic} wait as dead letters",
            f"run `headwater dead-letters retry {view}` or `discard` first",
        )


def _note(config: Config, broker: Broker, mark: Mark, added: Addition) -> None:
    """Write a mark that names the new partitions, which are empty."""
    source, kafka, topic = config.source.name, config.kafka, added.topic
    stored = newest_mark(broker, source)
    assert isinstance(stored, StoredMark), "it was read"
    before = mark.offsets[topic]
    noted = mark._replace(
        offsets={**mark.offsets, topic: dict.fromkeys(range(added.partitions), 0) | before},
        regrouped={**mark.regrouped, topic: before},
    )
    producer = BulkProducer(kafka.bootstrap_servers, kafka.producer, security=kafka)
    with closing(producer):
        now_ms, limit = time_ns() // 1_000_000, producer.largest_record
        records = mark_records(noted, source, now_ms, limit, stored.next_turn)
        producer.send_records(progress_topic(source), records)
        producer.flush()
