"""``headwater apply`` with the state database: what a process of it consists of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

import structlog
from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import HeadwaterError, UsageError
from cdc.kafka.broker import Broker
from cdc.source import postgres as source_postgres
from cdc.source.slot import identify
from jobs.run.command_client import Teller, awaited
from jobs.run.direct_views import DirectViews, is_direct
from jobs.run.engine import Engine
from jobs.run.orders import ENDED
from jobs.run.parts import Parts
from jobs.run.stream import Stream
from jobs.state.commands import Answer, Command, ask, end_all
from jobs.state.identity import Identity
from jobs.state.server import state_server

log = structlog.get_logger("apply")


def keep_views(
    spark: SparkSession,
    config: Config,
    names: Sequence[str],
    reload: Callable[[], Config],
    stopping: threading.Event,
    available_now: bool = False,
) -> dict[str, HeadwaterError]:
    """Keep views until ``stopping``; why those that could not be kept were not.

    Raises ``StateError`` for a state database that cannot be used, ``LogError`` where Kafka no
    longer holds what the stream goes on with.
    """
    for name in names:
        if name not in config.views:
            known = ", ".join(config.views) or "none"
            raise UsageError(f"no view {name!r}", f"[views] has: {known}")
    wanted = tuple(names) or tuple(config.views)
    own = [name for name in wanted if is_direct(config, name)]
    direct = DirectViews(spark, config, own, available_now)
    with _parts(spark, config, reload) as parts, direct.kept(stopping):
        engine = Engine(
            replace(parts, names=tuple(names)), partial(Stream, spark, config.kafka), stopping
        )
        failed = engine.run(available_now)
    return {**failed, **direct.failed}


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
    with _parts(spark, config, reload) as parts:
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
            engine = Engine(
                replace(parts, builds=False), partial(Stream, spark, config.kafka), stopping
            )
            waiting.start()
            try:
                engine.run()
            finally:
                end_all(conn, [id_ for id_, _ in ids], ENDED)
                waiting.join()
    for fault in faults:
        raise fault
    return found


@contextmanager
def _parts(spark: SparkSession, config: Config, reload: Callable[[], Config]) -> Iterator[Parts]:
    with (
        state_server(config, source_identity(config), _waits) as server,
        Broker(config.kafka.bootstrap_servers, config.kafka) as broker,
    ):
        yield Parts(config, (), reload, server, broker, spark)


def source_identity(config: Config) -> Identity:
    """The source, as it says itself who it is."""
    source = config.source
    with source_postgres.connect(source.dsn, application_name="headwater apply") as conn:
        found = identify(conn)
    return Identity(source.name, found.system_id, found.database)


def _waits(error: HeadwaterError) -> None:
    log.warning("state_database_waited_for", cause=str(error))
