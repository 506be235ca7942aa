"""Snapshots on demand: some tables, or some of their rows, into topics of their own.

    create ─▶ run ─▶ complete ─▶ discard
               ▲ └─ paused, failed, or killed: run again goes on where it was

What a view's bootstrap does with it: note the end offsets O of the main topics, ``create`` (and
remember the id), ``run``, load ``topics``, then stream from O on top of it, leaving out what was
committed below ``Standing.lsn``. Positions decide between rows and stream: a row was read at
``(L, 0)``, and after a resume there are several L (``Standing.points``). Then an update that leaves
out values of a row that is not there is to be passed over if it is below the last L: the row was
gone before it could be read, and its delete is still to come. A topic may hold a truncate: what
stands before it, at lower positions, is void. Streaming goes on; no other consumer sees anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

from cdc.capture.unheld_values import UnheldValues
from cdc.config import Config
from cdc.errors import HeadwaterError, SourceError
from cdc.events.envelope import SourceContext
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.bulk_producer import BulkProducer
from cdc.kafka.marks import own_mark, refuse_other_form
from cdc.kafka.topology import dead_letters_specs, event_settings
from cdc.registry.schemas import registry_of
from cdc.source.catalog import captured_tables
from cdc.source.postgres import Connection, connect
from cdc.source.selection import Table
from cdc.source.slot import create_slot, identify
from cdc.topics import snapshot_prefix, snapshot_topic
from snapshots import state
from snapshots.conditions import ConditionError, recorded_condition
from snapshots.initial_snapshot import lost_in_kafka
from snapshots.job import Job, Observer, Silent, StoppedError
from snapshots.ledger import Ledger
from snapshots.plan import Bounds
from snapshots.rate import parse_rate
from snapshots.refusals import begun_form, refuse_bounds, refuse_outliving, refuse_unfit
from snapshots.rounds import run as run_rounds
from snapshots.status import Standing, snapshot, snapshots

SIGNAL: Final = "signal"
"""The purpose of snapshots that signals began: what they may ask for is read anew at every run."""
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class Options:
    """What a snapshot takes, and how fast. ``where`` is SQL over each table's columns;
    ``key_range`` is of the first key column, ``[low, high)``, None for no bound. ``workers`` and
    ``rate`` (as ``snapshot.rate``) None: as configured. ``purpose`` is shown in lists. It is not
    begun if WAL that is written meanwhile has no room, unless ``despite_forecast``."""

    where: str = ""
    key_range: tuple[str | None, str | None] | None = None
    workers: int | None = None
    rate: str | None = None
    purpose: str = ""
    despite_forecast: bool = False


def create(config: Config, tables: Sequence[str], options: Options | None = None) -> int:
    """Record a snapshot of ``tables`` (names or patterns as in ``source.tables``); its id.

    Reads no row yet. Raises ``SourceError`` for whatever would stop it, ``LogError`` where the
    source's topics are of another database.
    """
    options = options or Options()
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        chosen = refuse_unfit(conn, config.source, tables)
        if not options.despite_forecast:
            refuse_outliving(conn, config, chosen, options.rate)
        with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
            mark = own_mark(broker, config.source.name, identify(conn))
        refuse_other_form(config, mark.form)
        return record(conn, config, chosen, options)


def record(
    conn: Connection,
    config: Config,
    tables: Sequence[Table],
    options: Options,
    *,
    joining: bool = False,
    used: Sequence[str] = (),
) -> int:
    """Record a snapshot; its id. One that is ``joining`` goes to the tables' own topics, which
    hold records of an earlier time of those ``used``. Raises ``SourceError`` for conditions that do
    not fit a table."""
    refuse_bounds(conn, config.source, tables, Bounds(options.where, options.key_range))
    given: dict[str, object] = {
        "tables": [_quoted(table) for table in tables],
        "where": options.where,
        "key_range": options.key_range,
        "workers": options.workers or config.snapshot.workers,
        "rate": options.rate or config.snapshot.rate,
        "purpose": options.purpose,
    }
    if form := config.form.recorded:
        given["form"] = form
    if joining:
        given |= {"joining": [table.label for table in tables], "used": list(used)}
    return state.begin_on_demand(conn, config.source.name, given)


def run(config: Config, snapshot_id: int, observer: Observer | None = None) -> Standing:
    """Read until every row is in Kafka; after an interruption only what is missing.

    Raises ``StoppedError`` when another process asked for it, ``SourceError`` when another one runs
    the snapshot already, else what reading and publishing raise: then it can be run again.
    """
    source = config.source
    with connect(source.dsn, application_name="headwater snapshot") as conn:
        found = snapshot(conn, source.name, snapshot_id)
        if found.complete:
            return found
        if found.kind == "initial" or found.status == "cancelled":
            way = "run `headwater init`" if found.kind == "initial" else "start a new one"
            kind = found.kind.replace("_", " ")
            raise SourceError(f"snapshot {snapshot_id} is {kind}, {found.status}", way)
        if not state.lock(conn, snapshot_id):
            raise SourceError(
                f"another process is running snapshot {snapshot_id}",
                f"run `headwater snapshot status {snapshot_id}` to see its progress",
            )
        state.set_status(conn, snapshot_id, "running")
        try:
            _run(config, conn, found, observer or Silent())
        except (HeadwaterError, KeyboardInterrupt) as error:
            with suppress(HeadwaterError):  # the source itself may be away
                try:
                    _ended(config, conn, snapshot_id, error)
                except HeadwaterError as left:
                    state.set_status(conn, snapshot_id, "failed", f"not cancelled: {left}")
            raise
        return snapshot(conn, source.name, snapshot_id)


def topics(config: Config, snapshot_id: int) -> dict[str, str]:
    """The topics of the snapshot's rows, by ``schema.table``."""
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        found = snapshot(conn, config.source.name, snapshot_id)
    return {table.label: table.topic for table in found.tables if table.topic}


def standing(config: Config, snapshot_id: int | None) -> Standing:
    """How the snapshot, or the newest one, stands: ``complete``, the smallest ``lsn``, its tables.

    Raises ``SourceError`` for one that is not there.
    """
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        if snapshot_id is not None:
            return snapshot(conn, config.source.name, snapshot_id)
        if found := snapshots(conn, config.source.name):
            return max(found, key=lambda one: one.id)
        raise SourceError(f"source {config.source.name} has no snapshot", "run `headwater init`")


def ask(config: Config, snapshot_id: int, what: str) -> Standing:
    """Have a snapshot ``pause`` or ``cancel``; how it stands then. A process that runs it does so
    when the chunks that it reads are done. Raises ``SourceError`` for one that is over."""
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        found = snapshot(conn, config.source.name, snapshot_id)
        if found.status in ("complete", "cancelled"):
            raise SourceError(
                f"snapshot {snapshot_id} is {found.status}", "run `headwater snapshot list`"
            )
        if found.kind == "initial":
            raise SourceError(
                f"snapshot {snapshot_id} belongs to `headwater init`",
                "stop that process; the next `headwater init` resumes it",
            )
        if state.lock(conn, snapshot_id):
            _ended(config, conn, snapshot_id, StoppedError(snapshot_id, what))
        else:
            state.ask(conn, snapshot_id, what)
        return snapshot(conn, config.source.name, snapshot_id)


def discard(config: Config, snapshot_id: int) -> list[str]:
    """Delete the snapshot's topics, and all that is known of it; their names. Raises
    ``SourceError`` while a process runs it, ``LogError`` for topics of another database."""
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        found = snapshot(conn, config.source.name, snapshot_id)
        if found.kind == "initial":
            raise SourceError(f"snapshot {snapshot_id} is the initial one", "choose another")
        if not state.lock(conn, snapshot_id):
            raise SourceError(
                f"a process is still running snapshot {snapshot_id}",
                f"run `headwater snapshot cancel {snapshot_id}` to end it",
            )
        deleted = _delete_topics(config, conn, found)
        state.forget(conn, snapshot_id)
        return deleted


def _run(config: Config, conn: Connection, found: Standing, observer: Observer) -> None:
    source, kafka, options = config.source, config.kafka, found.options
    here, bounds = identify(conn), bounds_of(options)
    chosen = source.model_copy(update={"tables": tuple(options["tables"]), "exclude": ()})

    def topic_of(table: Table) -> str:
        if found.joining:
            return source.topic(table.schema, table.name)
        return snapshot_topic(source.name, found.id, table.schema, table.name)

    tables = captured_tables(conn, chosen)
    beside = source.rows_topics((one.schema, one.name) for one in tables if found.joining)
    names = list(dict.fromkeys([*map(topic_of, tables), *beside.values()]))
    settings = {**event_settings(kafka), **({} if found.joining else _KEPT)}
    specs = [TopicSpec(n, kafka.partitions, kafka.replication_factor, settings) for n in names]
    with Broker(kafka.bootstrap_servers, kafka) as broker:
        form = begun_form(config, found, own_mark(broker, source.name, here))
        release, registry = version("headwater"), registry_of(config)
        broker.create_topics([*specs, *dead_letters_specs(config)])
        partitions = broker.partitions(names)
        ends = {topic: sum(of.values()) for topic, of in broker.end_offsets(names).items()}
    rows_s, bytes_s = parse_rate(options["rate"])
    job = Job(
        source=source,
        kafka=kafka,
        context=SourceContext(release, source.name, here.database, form, registry, UnheldValues()),
        tables=lambda: captured_tables(conn, chosen),
        topic_of=topic_of,
        slot=lambda: create_slot(
            source.dsn,
            f"headwater_snapshot_{found.id}_{conn.info.backend_pid}",
            temporary=True,
            timeout_s=config.snapshot.slot_timeout_s,
            on_wait=observer.step,
        ),
        partitions=partitions,
        observer=observer,
        dirty=frozenset(options.get("used", ())),
        bounds=bounds,
        workers=options["workers"],
        rows_s=rows_s,
        bytes_s=bytes_s,
        chunk_mb=config.snapshot.chunk_mb,
        max_age_s=config.snapshot.max_age_s,
        dead_letters=config.capture.oversized == "dead_letter",
    )
    producer = BulkProducer(kafka.bootstrap_servers, kafka.producer, security=kafka)
    ledger = Ledger(conn, found.id)
    for label in lost_in_kafka(ledger, ends, beside):
        observer.step(f"Kafka holds less of {label} than it had: reading it anew")
    run_rounds(job, ledger, producer)
    state.complete(conn, found.id, min(ledger.points()))


def bounds_of(options: Mapping[str, Any]) -> Bounds:
    """What a snapshot takes, as recorded. Raises ``SourceError`` for the condition of a signal that
    is none which a signal may have: an earlier Headwater recorded it as it was written."""
    where, low_high = options["where"], options["key_range"]
    if where and options.get("purpose") == SIGNAL:
        try:
            where = recorded_condition(where)
        except ConditionError as error:
            raise SourceError(
                f"the filter in the signal that started this snapshot is invalid: {error}",
                "cancel it with `headwater snapshot cancel`",
            ) from None
    return Bounds(where, tuple(low_high) if low_high else None)


def _ended(config: Config, conn: Connection, snapshot_id: int, error: BaseException) -> None:
    """Record why it is not complete."""
    if isinstance(error, StoppedError) and error.what == "cancel":
        with suppress(SourceError):  # its record may be gone
            _delete_topics(config, conn, snapshot(conn, config.source.name, snapshot_id))
        state.set_status(conn, snapshot_id, "cancelled")
    elif isinstance(error, StoppedError | KeyboardInterrupt):
        state.set_status(conn, snapshot_id, "paused")
    else:
        state.set_status(conn, snapshot_id, "failed", str(error))


def _delete_topics(config: Config, conn: Connection, found: Standing) -> list[str]:
    """Raises ``LogError`` for those of another database."""
    if found.joining:
        return []  # capture streams to them
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        # One that failed early has topics that nothing tells of yet.
        topics = broker.topics(snapshot_prefix(config.source.name, found.id))
        if topics:
            own_mark(broker, config.source.name, identify(conn))
        broker.delete_topics(topics)
    return topics


def _quoted(table: Table) -> str:
    """A pattern for exactly this table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in (table.schema, table.name))
