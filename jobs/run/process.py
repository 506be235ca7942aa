"""``headwater apply`` with the state database: what a process of it consists of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError, UsageError
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.event_reader import event_reader
from cdc.kafka.marks import refuse_foreign_topics
from cdc.log_events import LogEvent
from cdc.metrics.probes import Probes
from cdc.source.slot import SourceIdentity
from cdc.topics import view_group
from jobs.batch.thresholds import BATCH_RECORDS
from jobs.run.commands.client import Teller, awaited
from jobs.run.commands.queue import ENDED
from jobs.run.engine import Engine
from jobs.run.process_parts import Parts
from jobs.run.stream.stream import Stream, StreamBatch
from jobs.run.views.group_offsets import known_offsets
from jobs.run.views.views_without_mirrors import DirectViews, is_direct
from jobs.spark.garbage_collector import collect_rarely
from jobs.state.batch.stream_offsets import recreated_topics, stream_offsets
from jobs.state.server.database import StateServer, state_server
from jobs.state.server.identity import Identity, is_lost, refuse_older_copy
from jobs.state.views.commands import Answer, Command, ask, end_all
from views.parse.table_references import tables_read

_AGAIN_S: Final = 2.0

log = structlog.get_logger("apply")


def keep_views(
    spark: SparkSession,
    config: Config,
    names: Sequence[str],
    reload: Callable[[], Config],
    stopping: threading.Event,
    available_now: bool = False,
    probes: Probes | None = None,
) -> dict[str, HeadwaterError]:
    """Keep views until ``stopping``; why those that could not be kept were not. A source or Kafka
    that does not answer at the start is waited for ``apply.retry_s``, not if ``available_now``.

    Raises ``StateError`` for a state database that cannot be used, ``LogError`` where Kafka no
    longer holds what the stream goes on with, or has the topics of another database,
    ``RetryableError`` for a server that has not answered.
    """
    probes = probes or Probes()
    for name in names:
        if name not in config.views:
            known = ", ".join(config.views) or "none"
            raise UsageError(f"no view {name!r}", f"choose a declared view: {known}")
    wanted = tuple(names) or tuple(config.views)
    own = [name for name in wanted if is_direct(config, name)]
    direct = DirectViews(spark, config, own, available_now)
    with _broker(config) as broker:
        if available_now:
            here = refuse_foreign_topics(config, broker)
        elif (found := _awaited_source(config, broker, stopping, probes)) is not None:
            here = found
        else:
            return {}
        with _parts(spark, config, reload, broker, here) as parts, direct.kept(stopping):
            parts = replace(parts, names=tuple(names), probes=probes)
            engine = Engine(parts, stream_of(spark, config, parts.reader), stopping)
            failed = engine.run(available_now)
    return {**failed, **direct.failed}


def _broker(config: Config) -> Broker:
    return Broker(config.kafka.bootstrap_servers, config.kafka)


def _awaited_source(
    config: Config, broker: Broker, stopping: threading.Event, probes: Probes
) -> SourceIdentity | None:
    """Who the source is, as soon as it and Kafka answer; None when it is stopped before."""
    away: list[str] = []
    probes.ready_unless(lambda: away)
    given_up = time.monotonic() + config.apply.retry_s
    while not stopping.is_set():
        probes.moved()
        try:
            here = refuse_foreign_topics(config, broker)
        except RetryableError as error:
            if time.monotonic() >= given_up:
                raise
            away[:] = [str(error)]
            log.warning(LogEvent.SERVER_WAITED_FOR, cause=str(error))
            stopping.wait(_AGAIN_S)
            continue
        away.clear()
        return here
    return None


def carry_out(
    spark: SparkSession,
    config: Config,
    commands: Sequence[Command],
    reload: Callable[[], Config],
    stopping: threading.Event,
    teller: Teller,
) -> list[Answer]:
    """Keep the views that are built, for as long as some commands on them take; their answers.

    Raises what ``keep_views`` does.
    """
    found: list[Answer] = []
    faults: list[Exception] = []
    with (
        _broker(config) as broker,
        _parts(spark, config, reload, broker, refuse_foreign_topics(config, broker)) as parts,
    ):
        server = parts.server
        with closing(server.connect(autocommit=True)) as conn:
            ids = [(ask(conn, one), one.view) for one in commands]

            def wait() -> None:
                try:
                    found.extend(awaited(config, server.dsn, ids, teller))
                except Exception as error:
                    faults.append(error)
                finally:
                    stopping.set()

            waiting = threading.Thread(target=wait, name="command", daemon=True)
            open_stream = stream_of(spark, config, parts.reader)
            engine = Engine(replace(parts, builds=False), open_stream, stopping)
            waiting.start()
            try:
                engine.run()
            finally:
                end_all(conn, [id_ for id_, _ in ids], ENDED)
                waiting.join()
    for fault in faults:
        raise fault
    return found


def stream_of(
    spark: SparkSession, config: Config, reader: EventReader | None
) -> Callable[[Callable[[StreamBatch], None]], Stream]:
    """What makes the process's stream, its batches as large as the configuration allows."""
    most = config.apply.max_offsets_per_trigger or BATCH_RECORDS
    return partial(Stream, spark, config.kafka, most_records=most, reader=reader)


@contextmanager
def _parts(
    spark: SparkSession,
    config: Config,
    reload: Callable[[], Config],
    broker: Broker,
    here: SourceIdentity,
) -> Iterator[Parts]:
    identity = Identity(config.source.name, here.system_id, here.database)
    with state_server(config, identity, _waits) as server:
        refuse_other_state(config, server, broker)
        collect_rarely()
        yield Parts(config, (), reload, server, broker, spark, reader=event_reader(config))


def refuse_other_state(config: Config, server: StateServer, broker: Broker) -> None:
    """Raise ``StateError`` for a state database that was restored from a copy, or that Kafka has
    not kept the next records of. Tells of one that is new where views were kept before."""
    with closing(server.connect(autocommit=True)) as conn:
        state = stream_offsets(conn)
        recreated = recreated_topics(conn, broker.topic_ids(sorted(state)))
    known_topics = state.keys() - set(recreated)
    committed: Offsets = {}
    for name in config.views:
        if not is_direct(config, name):
            for topic, of_topic in _told(config, broker, name).items():
                if state and topic not in known_topics:
                    continue  # its mirror is filled anew
                known = committed.setdefault(topic, {})
                known |= {n: max(at, known.get(n, 0)) for n, at in of_topic.items()}
    if is_lost(state, committed):
        log.warning(
            LogEvent.STATE_DATABASE_LOST, then="the mirrors are filled and the views built anew"
        )
        return
    earliest = broker.beginning_offsets(sorted(known_topics)) if known_topics else {}
    refuse_older_copy(state, committed, earliest)


def _told(config: Config, broker: Broker, name: str) -> Offsets:
    """How far the group of a view was told to be, of the topics that its SQL reads; also where a
    rollback has had it go back since."""
    tables = tables_read(name, config.views[name].sql)
    topics = [config.source.own_topic(one.schema, one.table) for one in tables]
    return known_offsets(broker, view_group(name), topics)[0]


def _waits(error: HeadwaterError) -> None:
    log.warning(LogEvent.STATE_DATABASE_WAITED_FOR, cause=str(error))
