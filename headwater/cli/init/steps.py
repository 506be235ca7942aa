"""What ``headwater init`` does: all that capture needs, in the order that is safe to interrupt.

    preflight ─▶ migrations ─▶ publication ─▶ topics ─▶ state running ─▶ slot at L ─▶ snapshot
              ─▶ progress mark (L) ─▶ state complete

Every step before ``running`` may be repeated. From there on a crash leaves ``running``, and the
next run goes on with the slot and with what is in Kafka; with ``again`` it starts over.
Only the mark lets capture start, so it never follows a snapshot that is not whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

from cdc.capture.unheld_values import UnheldValues
from cdc.config import Config
from cdc.errors import FatalError, SourceError, two_lines
from cdc.events.envelope import SourceContext
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.kafka.bulk_producer import BulkProducer
from cdc.kafka.marks import stored_mark
from cdc.kafka.topology import all_specs
from cdc.lsn import format_lsn
from cdc.registry.schemas import registry_of
from cdc.source.catalog import captured_tables
from cdc.source.columns.excluded_columns import column_lists
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from cdc.source.publication import ensure_publication, read_publication, unpublished
from cdc.source.slot import ExportedSlot, create_slot, drop_slot, identify, slot_state
from headwater.check import Finding, errors_of, preflight
from headwater.check.ddl_trigger import CHECK as DDL_EVENTS
from headwater.check.emit_topics import outbox_tables, public_usage, unnamed_topics
from headwater.check.publication import CHECK as PUBLICATION
from headwater.cli.init.topics import (
    Kit,
    dirty,
    ends,
    refuse_other_begun_form,
    refuse_other_history,
    refuse_other_routes,
    restore_topics,
    routed,
    send_progress,
    table_topics,
    withdraw,
)
from migrations.emit_topics import set_emit_topics
from migrations.runner import migrate
from snapshots import state
from snapshots.initial_snapshot import cannot_go_on, lost_in_kafka, publish_descriptions
from snapshots.job import Job, Observer
from snapshots.ledger import Ledger
from snapshots.publisher import SnapshotPublisher
from snapshots.rounds import run as run_rounds

_LOCK = "select pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended(%s, 0))"


class Outcome(NamedTuple):
    """What stands after a run. ``created`` is False when it stood before. ``rows`` by table;
    ``dead_letters`` are those that were too large for Kafka, of tables that have any."""

    created: bool
    slot: str
    publication: str
    consistent_point: int
    topics: list[str]
    rows: dict[str, int]
    dead_letters: dict[str, int]


def initialise(
    config: Config,
    observer: Observer,
    *,
    with_rows: bool = True,
    again: bool = False,
    moved: bool = False,
    take_publication: bool = False,
) -> Outcome:
    """Make what is missing, or say what stands. ``again`` replaces a snapshot, complete or not;
    ``moved`` accepts topics that the database filled in another cluster; ``take_publication``
    alters one that ``source.publication`` names and that does not fit.

    Raises ``FatalError`` with all errors of the preflight before anything is made.
    """
    source = config.source
    with connect(source.dsn, application_name="headwater init") as conn:
        _exclusively(conn, source.name)
        known = state.read_state(conn, source.name)
        if known is not None and known.complete and not again:
            _refuse_unnamed_topics(config, conn)
            _prepare_schema(config, conn, observer)
            return _standing(config, conn, known, observer)
        _check(config, known, take_publication)
        _prepare_schema(config, conn, observer)
        tables = captured_tables(conn, source)
        lists = column_lists(conn, source, tables)
        StreamColumns(source).begin(conn)  # snapshots and mirrors treat what is recorded
        changed = ensure_publication(conn, source.publication_name, tables, lists)
        observer.step(f"publication {source.publication_name} {'set' if changed else 'fits'}")
        with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
            kit = Kit(config, conn, broker, observer, tables)
            refuse_other_history(kit, is_known=known is not None, moved=moved)
            refuse_other_begun_form(kit, known)
            refuse_other_routes(kit, known, again=True)
            specs = all_specs(config, tables)
            created = broker.create_topics(specs)
            observer.step(f"topics: {len(created)} created, {len(specs) - len(created)} were there")
            lsn, *counts = _take_snapshot(kit, known, with_rows, again)
    topics = [spec.name for spec in specs]
    return Outcome(True, source.slot_name, source.publication_name, lsn, topics, *counts)


def _refuse_unnamed_topics(config: Config, conn: Connection) -> None:
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        tables = outbox_tables(conn, config.source)
        _refuse(list(unnamed_topics(config, broker, tables)))


def _prepare_schema(config: Config, conn: Connection, observer: Observer) -> None:
    with conn.transaction():  # a new emit that knows no topic would refuse those of applications
        migrated = migrate(conn)
        changed = set_emit_topics(conn, config.source.name, config.capture.emit_topics)
    if migrated:
        observer.step("schema headwater is up to date")
        for finding in public_usage(conn):
            observer.step(f"{finding.message}; its owner has to run: {finding.hint}")
    if changed:
        names = ", ".join(config.capture.emit_topics) or "no topic"
        observer.step(f"headwater.emit accepts {names}")


def _take_snapshot(
    kit: Kit, known: state.SnapshotState | None, with_rows: bool, again: bool
) -> tuple[int, dict[str, int], dict[str, int]]:
    """Slot, rows, mark; the consistent point, and rows and dead letters by table."""
    config, conn, source = kit.config, kit.conn, kit.config.source
    producer = BulkProducer(
        config.kafka.bootstrap_servers, config.kafka.producer, security=config.kafka
    )
    places = routed(kit, known)
    snapshot_id = _resumed(kit, known) if known and with_rows and not again else None
    if snapshot_id is None:
        for name in {source.slot_name, known.slot if known else source.slot_name}:
            if drop_slot(conn, name):
                kit.observer.step(f"slot {name} of an earlier run dropped: starting over")
        withdraw(kit, producer)
        form = config.form
        snapshot_id = state.begin(conn, source.name, source.slot_name, form.recorded, places)
    ledger = Ledger(conn, snapshot_id)
    identity = identify(conn)
    form = config.form
    registry = registry_of(config)
    context = SourceContext(
        version("headwater"), source.name, identity.database, form, registry, UnheldValues()
    )
    if with_rows:
        run_rounds(_job(kit, ledger, context), ledger, producer)
        lsn = min(ledger.points())
    else:
        with _slot(kit) as slot:
            lsn = slot.consistent_point
            publisher = SnapshotPublisher(producer, context, lsn)
            publish_descriptions(source, kit.tables, publisher, slot.snapshot_name)
    offsets, of = ends(kit), (identity.system_id, identity.timeline, identity.database)
    ids = kit.broker.topic_ids(sorted(offsets))
    before = stored_mark(kit.broker, source.name)
    regrouped = before.mark.regrouped if before else {}
    more: dict[str, Any] = {"topic_ids": ids, "regrouped": regrouped, "form": form.recorded}
    more["routed"] = places
    mark = Mark(lsn, offsets, *of, source.slot_name, **more)
    send_progress(kit, producer, mark)
    state.complete(conn, snapshot_id, lsn)
    return lsn, state.table_rows(conn, snapshot_id), state.dead_letters(conn, snapshot_id)


def _resumed(kit: Kit, known: state.SnapshotState) -> int | None:
    """The interrupted snapshot to go on with; None when there is none, or it must start over."""
    if known.complete:
        return None
    if why := cannot_go_on(kit.conn, known, kit.config.source.slot_name):
        kit.observer.step(f"an interrupted snapshot cannot go on: {why}")
        return None
    ledger = Ledger(kit.conn, known.id)
    held = kit.broker.end_offsets(table_topics(kit))
    sums = {topic: sum(of_topic.values()) for topic, of_topic in held.items()}
    beside = kit.config.source.rows_topics((table.schema, table.name) for table in kit.tables)
    for label in lost_in_kafka(ledger, sums, beside):
        kit.observer.step(f"Kafka holds less of {label} than it had: reading it anew")
    chunks = ledger.chunks()
    done = sum(chunk.lsn is not None for chunk in chunks)
    kit.observer.step(f"going on with the snapshot: {done} of {len(chunks)} chunks are in Kafka")
    return known.id


def _job(kit: Kit, ledger: Ledger, context: SourceContext) -> Job:
    config, source = kit.config, kit.config.source
    topics = table_topics(kit)
    return Job(
        source=source,
        kafka=config.kafka,
        context=context,
        tables=lambda: captured_tables(kit.conn, source),
        topic_of=lambda table: source.topic(table.schema, table.name),
        slot=lambda: _slot(kit, ledger),
        partitions=kit.broker.partitions(topics),
        observer=kit.observer,
        dirty=dirty(kit),
        workers=config.snapshot.workers,
        chunk_mb=config.snapshot.chunk_mb,
        max_age_s=config.snapshot.max_age_s,
        marked=config.snapshot.workers == 1,
        dead_letters=config.capture.oversized == "dead_letter",
    )


@contextmanager
def _slot(kit: Kit, ledger: Ledger | None = None) -> Iterator[ExportedSlot]:
    """Capture's own slot first, after that temporary ones."""
    source, rounds = kit.config.source, len(ledger.points()) if ledger else 0
    with create_slot(
        source.dsn,
        f"{source.slot_name[:50]}_{rounds}" if rounds else source.slot_name,
        temporary=rounds > 0,
        failover=source.failover and not rounds,
        timeout_s=kit.config.snapshot.slot_timeout_s,
        on_wait=kit.observer.step,
    ) as slot:
        if not rounds:
            point = format_lsn(slot.consistent_point)
            kit.observer.step(f"slot {source.slot_name} created at {point}")
        yield slot


def _exclusively(conn: Connection, source: str) -> None:
    """One ``headwater init`` a source: the lock ends with the session."""
    with translated("locking out other runs of headwater init"):
        row = conn.execute(_LOCK, (f"headwater init {source}",)).fetchone()
    if row != (True,):
        raise SourceError(
            f"another `headwater init` is running for source {source}", "wait until it has finished"
        )


def _check(config: Config, known: state.SnapshotState | None, take_publication: bool) -> None:
    """The preflight. A run that starts over does not mind what became of its slot."""
    status = "running" if known else None
    findings = preflight(config, lambda _: status, with_views=False)
    faults = errors_of(findings)
    if not take_publication:
        faults += [one for one in findings if (one.check, one.level) == (PUBLICATION, "warning")]
    faults = [fault for fault in faults if fault.check != DDL_EVENTS]  # init is the way out
    if known:
        faults = [fault for fault in faults if fault.check != "slot"]
    _refuse(faults)


def _refuse(faults: Sequence[Finding]) -> None:
    if faults:
        raise FatalError("\n".join(two_lines(f.message, f.hint) for f in faults))


def _standing(
    config: Config, conn: Connection, known: state.SnapshotState, observer: Observer
) -> Outcome:
    """What an earlier run made; raises ``SourceError`` when its slot is gone, ``LogError`` when a
    topic is with its records."""
    slot = slot_state(conn, config.source.slot_name)
    if slot is None or slot.lost:
        raise SourceError(
            f"slot {config.source.slot_name} is {'lost' if slot else 'gone'}: changes since "
            "then are not in Kafka",
            "run `headwater init --again` to take a new snapshot",
        )
    tables = captured_tables(conn, config.source)
    for table in unpublished(read_publication(conn, config.source.publication_name), tables):
        observer.step(f"{table.label} is not captured: run `headwater table add {table.label}`")
        tables.remove(table)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        refuse_other_routes(Kit(config, conn, broker, observer, tables), known, again=False)
        if made := restore_topics(config, broker, tables, slot.active_pid, identify(conn)):
            observer.step(f"topics made that were gone, and had been empty: {', '.join(made)}")
    return Outcome(
        False,
        config.source.slot_name,
        config.source.publication_name,
        known.consistent_point or 0,
        [spec.name for spec in all_specs(config, tables)],
        state.table_rows(conn, known.id),
        state.dead_letters(conn, known.id),
    )
