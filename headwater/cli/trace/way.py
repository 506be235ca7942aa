"""One row in Kafka and in each view of its table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import HeadwaterError, UsageError
from cdc.kafka.broker import Broker
from cdc.kafka.marks import refuse_foreign_topics
from cdc.lag.report import ViewReport
from cdc.lsn import Position
from cdc.registry.schemas import registry_of, values_of
from cdc.routes.faults import content_fault
from cdc.topics import view_group
from headwater.cli.trace.changes import Change, KeyLog, key_log
from headwater.cli.trace.row_key import RowKey, row_key
from headwater.cli.verify.state_views import Described, described, stored
from headwater.lag.watch import LagWatch
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import CHECKPOINT, state_directory, view_directory
from jobs.sinks.key_names import plain_key
from jobs.spark.checkpoint import batch_with as committed_with
from jobs.state.batch.stream_offsets import batch_at, batch_with
from jobs.state.dead_letters.parked_keys import parked_keys
from jobs.state.server.connection import Connection
from jobs.state.views.generation_keys import live_record
from jobs.state.views.view_columns import spark_columns
from jobs.state.views.view_names import read_names
from jobs.state.views.view_status import state_session
from jobs.without_mirrors.dead_letters.topic import waiting
from verification.key_walk import has_plain_key
from verification.view_facts import is_kept_by_state, view_facts


class Batch(NamedTuple):
    """A batch of the process that applies a view, and when it was done, in seconds since 1970: of
    a view over mirrors when these had it, of one without when the store had."""

    number: int
    at_s: float


class Stored(NamedTuple):
    """The row in a store; ``position`` is the version that was written, None if there is none, and
    ``batch`` the one after which it was made, if that is remembered."""

    key: dict[str, str]
    position: Position | None
    batch: Batch | None


class OfView(NamedTuple):
    """``applied``: whether the view has the newest change, None if there is none. ``waits`` says
    for what, "" if for nothing, and ``cause`` why its key is parked, which may quote rows of all
    tables of the view. ``at`` is the next offset that it applies. ``batch`` had the newest
    change, None if none has, or it is not remembered. ``stored`` is None where the row was not
    checked: ``unseen`` says why."""

    view: str
    store: str
    at: int | None
    applied: bool | None
    moved_s: float | None
    lag_s: float
    waits: str
    cause: str
    batch: Batch | None
    stored: Stored | None
    unseen: str


class Way(NamedTuple):
    """All that was found."""

    key: RowKey
    log: KeyLog
    views: Sequence[OfView]


def traced(
    config: Config,
    table: str,
    given: Sequence[str],
    changes: int,
    records: int,
    since_s: float | None,
) -> Way:
    """Raises ``UsageError`` for a row that cannot be meant, ``LogError`` for topics of another
    database, ``RetryableError`` when a server cannot be reached."""
    if not config.form.has_events:
        raise UsageError(
            "`headwater trace` reads whole events, and [events] has content = "
            f'"{config.form.content}"',
            "look for the key with Kafka's own tools: the header position says where a row stands",
        )
    key = row_key(config, table, given)
    schema, _, name = key.table.partition(".")
    if fault := content_fault(key.table, config.source.place(schema, name)):
        raise UsageError(*fault)
    since_ms = None if since_s is None else int((time.time() - since_s) * 1000)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        refuse_foreign_topics(config, broker)
        if key.topic not in broker.partitions([key.topic]):
            raise UsageError(
                f"{key.table} is not captured: there is no topic {key.topic}",
                "add it to source.tables, then run `headwater table add`",
            )
        facts = view_facts(config, broker)
        views = [view for view in config.views if key.topic in facts.topics(view)]
        # Before the log is read, so that what is not applied then is not applied now.
        reports: dict[str, ViewReport] = {}
        if views:
            with closing(LagWatch(lambda: config, views)) as looks:
                reports = {one.view: one for one in looks.look().report.views}
        read = values_of(registry_of(config))
        log = key_log(broker, key, changes, records, since_ms, read)
        newest = log.changes[0] if log.changes else None
        found = [
            _of_view(config, broker, view, key, log.partition, newest, reports.get(view))
            for view in views
        ]
    return Way(key, log, found)


def _of_view(
    config: Config,
    broker: Broker,
    view: str,
    key: RowKey,
    partition: int,
    newest: Change | None,
    report: ViewReport | None,
) -> OfView:
    commit = broker.commits(view_group(view), [key.topic]).get((key.topic, partition))
    at = commit.offset if commit else None
    applied = None if newest is None else at is not None and at > newest.offset
    place = key.topic, partition
    waits, cause, batch, row, unseen = "", "", None, None, ""
    try:
        if is_kept_by_state(config, view):
            with state_session(config) as conn:
                if conn is not None and newest is not None:
                    batch = _batch(batch_with(conn, place, newest.offset))
                row, cause, unseen = _in_state(config, conn, view, key)
        else:
            if newest is not None:
                batch = _batch(committed_with(_checkpoint(config, view), place, newest.offset))
            letters = waiting(config, broker, view).keys
            owners = [o for o in letters if (o.topic, o.key) == (key.topic, key.event)]
            cause = letters[owners[0]][0].cause if owners else ""
            unseen = "trace does not read views without mirrors"
    except HeadwaterError as error:
        unseen = error.message
    if cause:
        waits = "its key is parked"
    if report is not None and report.blocked_by and applied is False:
        waits = waits or report.blocked_by.text
    if applied is False:
        waits = waits or f"{(newest.offset - (at or 0)) if newest else 0:,} records before it"
    lag_s, moved_s = (report.lag_s, report.moved_s) if report else (0.0, None)
    store = config.views[view].store
    return OfView(view, store, at, applied, moved_s, lag_s, waits, cause, batch, row, unseen)


def _batch(found: tuple[int, float] | None) -> Batch | None:
    return None if found is None else Batch(*found)


def _checkpoint(config: Config, view: str) -> Path:
    """That of the generation which readers see."""
    directory = view_directory(config.apply.state, config.source.name, view)
    return state_directory(directory, read_generations(directory).live_number) / CHECKPOINT


def _in_state(
    config: Config, conn: Connection | None, view: str, key: RowKey
) -> tuple[Stored | None, str, str]:
    """The row, why its key is parked, and why it was not checked."""
    record = None if conn is None else live_record(conn, config, view)
    known = {} if conn is None or record is None else read_names(conn, record.id)
    found = described(config, view, record, known)
    of = found.view
    if not of.row_key or not set(of.row_key) <= key.texts.keys():
        return None, "", unchecked(found.no_row_key, key.table)
    own = {name: key.texts[column] for name, column in zip(of.key, of.row_key, strict=True)}
    cause = ""
    if conn is not None and record is not None:
        parked = {one.key: one.cause for one in parked_keys(conn, record.id)}
        cause = parked.get(tuple(own.values()), "")
    row, unseen = _row(config, found, own)
    if row is not None and row.position is not None and conn is not None:
        row = row._replace(batch=_batch(batch_at(conn, row.position)))
    return row, cause, unseen


def unchecked(reason: str, table: str) -> str:
    """Why the row of a store is not looked up: which one it is, is not known from the table's key.
    ``reason`` says what takes rows together, "" where the view only has another key."""
    if not reason:
        return f"the view's key is not the key of {table}"
    return f"the view's row is not made of this row alone: {reason}"


def _row(config: Config, found: Described, own: dict[str, str]) -> tuple[Stored | None, str]:
    columns = spark_columns(found.view.columns)
    if config.store(found.store).kind == "delta":
        return None, "trace does not read Delta tables"
    values = plain_key(columns, found.view.key, own)
    if values is None or not has_plain_key(found.view):
        return None, "its key is of a type that rows cannot be asked for by"
    with stored(config, found) as sink:
        rows = list(sink.scan([values]))
    return Stored(own, rows[0].position if rows else None, None), ""
