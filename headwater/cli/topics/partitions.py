"""More partitions for the topics of a table, or of emitted events.

A table with rows beside its events has two topics, and a key is in the same partition of both. Keys
move to other partitions then. The order of a key's changes holds if all that came before is
applied, and if no change that is in Kafka is published again: capture knows what it has published
by the end of each partition, and the new ones are empty. So it begins only where capture has
stopped, the newest progress mark covers all that the topics hold, and each view and alert is at
their ends. The new partitions of all topics are then noted in one mark, without which capture
refuses a topic that has more: after a crash between any two steps the command is run again. The
slot is held meanwhile, so that no capture starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from time import time_ns
from typing import NamedTuple

from cdc.capture.routed_tables import check_joining
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
from cdc.source.selection import Table
from cdc.source.slot import identify, slot_state
from cdc.topics import outbox_topic, progress_topic, row_alert_group, view_group
from headwater.lag.parked_counts import ParkedKeys
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import view_directory
from jobs.state.views.undeclared_views import with_undeclared
from verification.view_positions import unapplied
from views.parse.table_references import tables_read

_AGAIN = "start `headwater capture`, stop it with SIGTERM once `headwater lag` shows no lag"
_EMITTED = "outbox."


class Addition(NamedTuple):
    """``before`` says how many partitions topics have by the newest mark; each of them gets
    ``partitions``."""

    before: Mapping[str, int]
    partitions: int
    views: tuple[str, ...]
    """Those that read one of them; each has applied all of it."""


class _Named(NamedTuple):
    """What is extended. ``labels`` are of all tables whose events are in the first of ``topics``;
    none, for emitted events."""

    labels: frozenset[str]
    topics: Sequence[str]


def planned(config: Config, name: str, count: int) -> Addition:
    """What is to be done; nothing is changed. ``name``: ``schema.table``, or ``outbox.TOPIC``.

    Raises ``SourceError`` while capture runs, ``LogError`` where a topic holds what no mark covers
    or an alert has not delivered, ``ViewError`` where a view lacks records, ``UsageError`` for a
    table that is not captured or whose topics have as many partitions.
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
            for topic in found.before:
                broker.add_partitions(topic, count)
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
    named = _captured(config, broker, conn, mark, name)
    ends = broker.end_offsets(list(named.topics))
    before = growing(mark, ends, count)
    events, views = named.topics[0], tuple[str, ...]()
    if events in before:
        views = tuple(_reading(config, named.labels))
        for view in views:
            _refuse_behind(config, broker, view, events, ends[events])
        _refuse_undelivered(config, broker, named.labels, events, ends[events])
    return Addition(before, count, views), mark


def growing(mark: Mark, ends: Offsets, count: int) -> dict[str, int]:
    """Which of the topics that end there have less than ``count`` partitions by the mark, and how
    many. Raises where one of them must not get more, and where there is none. Pure."""
    before = {topic: len(mark.offsets[topic]) for topic in ends}
    fewer = {topic: number for topic, number in before.items() if number < count}
    for topic, of_topic in ends.items():
        is_unknown = len(of_topic) > before[topic]
        if topic in fewer or is_unknown:
            _refuse_uncovered(mark, topic, of_topic)
        if count < len(of_topic) and (is_unknown or not fewer):
            raise _enough(topic, len(of_topic))
    if not fewer:
        raise _enough(*next((topic, len(of_topic)) for topic, of_topic in ends.items()))
    return fewer


def _enough(topic: str, partitions: int) -> UsageError:
    return UsageError(
        f"{topic} already has {partitions} partitions",
        "choose a larger number: partitions cannot be removed",
    )


def _refuse_uncovered(mark: Mark, topic: str, ends: Mapping[int, int]) -> None:
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


def _captured(config: Config, broker: Broker, conn: Connection, mark: Mark, name: str) -> _Named:
    source, emitted = config.source, name.removeprefix(_EMITTED)
    try:
        pattern = parse_pattern(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    tables = chosen_tables(conn, source)[0]
    found = [
        one
        for one in tables
        if pattern.matches(one.schema, one.name)
        and source.topic(one.schema, one.name) in mark.offsets
    ]
    outbox = outbox_topic(source.name, emitted)
    if not found and emitted in config.capture.emit_topics and outbox in mark.offsets:
        return _Named(frozenset(), [outbox])
    if len(found) != 1:
        raise UsageError(
            f"{name} is {'more than one table' if found else 'not captured'}",
            "name one captured table as schema.table, or a topic of headwater.emit that has "
            "events as outbox.TOPIC",
        )
    return _of_table(config, broker, mark, found[0], tables)


def _of_table(
    config: Config, broker: Broker, mark: Mark, table: Table, tables: Sequence[Table]
) -> _Named:
    """Raises ``LogError`` where routes put it elsewhere than its records are."""
    source = config.source
    check_joining(config, broker, [(table.schema, table.name)], mark)
    topics = source.place(table.schema, table.name).topics
    for topic in topics:
        if topic not in mark.offsets:
            raise LogError(
                f"{table.label} has rows beside its events in {topic}, and capture has not written "
                "to that topic yet",
                "start `headwater capture`, change a row of the table, and stop capture with "
                "SIGTERM; then run this again",
            )
    beside = (one.label for one in tables if source.topic(one.schema, one.name) == topics[0])
    return _Named(frozenset(beside), topics)


def _reading(config: Config, labels: Collection[str]) -> Iterator[str]:
    """Views of one of the tables, declared or built."""
    for name, view in with_undeclared(config).views.items():
        try:
            read = {table.name for table in tables_read(name, view.sql)}
        except ViewError:  # no view can be made of it
            continue
        if not read.isdisjoint(labels):
            yield name


def _refuse_undelivered(
    config: Config,
    broker: Broker,
    labels: Collection[str],
    topic: str,
    ends: Mapping[int, int],
) -> None:
    """Raise where an alert has messages to send: the next one of a key could overtake them."""
    for name, alert in config.alerts.rows.items():
        if alert.table not in labels:
            continue
        committed = broker.committed(row_alert_group(config.source.name, name), [topic])
        if committed.get(topic) and (behind := unapplied({topic: dict(ends)}, committed)):
            lacks = sum(one.records for one in behind)
            raise LogError(
                f"alert {name} has not looked at, or not delivered, {lacks} records of {topic}",
                f"let `headwater serve` run until `headwater lag` shows none for alert {name}, or "
                "remove the alert from the configuration; then run this again",
            )


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
    source, kafka = config.source.name, config.kafka
    stored = newest_mark(broker, source)
    assert isinstance(stored, StoredMark), "it was read"
    noted = with_partitions(mark, added)
    producer = BulkProducer(kafka.bootstrap_servers, kafka.producer, security=kafka)
    with closing(producer):
        now_ms, limit = time_ns() // 1_000_000, producer.largest_record
        records = mark_records(noted, source, now_ms, limit, stored.next_turn)
        producer.send_records(progress_topic(source), records)
        producer.flush()


def with_partitions(mark: Mark, added: Addition) -> Mark:
    """It names all partitions, and says where those of before ended. Pure."""
    before = {topic: mark.offsets[topic] for topic in added.before}
    new = dict.fromkeys(range(added.partitions), 0)
    return mark._replace(
        offsets={**mark.offsets, **{topic: new | at for topic, at in before.items()}},
        regrouped={**mark.regrouped, **before},
    )
