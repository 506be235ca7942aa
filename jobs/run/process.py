"""``headwater apply`` with the state database: what a process of it consists of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import HeadwaterError, UsageError
from cdc.kafka.broker import Broker
from cdc.source import postgres as source_postgres
from cdc.source.slot import identify
from jobs.run.engine import Engine
from jobs.run.parts import Parts
from jobs.run.stream import Stream
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
    with (
        state_server(config, source_identity(config), partial(_waits)) as server,
        Broker(config.kafka.bootstrap_servers, config.kafka) as broker,
    ):
        parts = Parts(config, tuple(names), reload, server, broker, spark)
        engine = Engine(parts, partial(Stream, spark, config.kafka), stopping)
        return engine.run(available_now)


def source_identity(config: Config) -> Identity:
    """The source, as it says itself who it is."""
    source = config.source
    with source_postgres.connect(source.dsn, application_name="headwater apply") as conn:
        found = identify(conn)
    return Identity(source.name, found.system_id, found.database)


def _waits(error: HeadwaterError) -> None:
    log.warning("state_database_waited_for", cause=str(error))
