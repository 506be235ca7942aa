"""Which sink and which generations a configured store has. A new store is added here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc.config import Store, View
    from jobs.sinks.contract import Generations, Sink


def open_sink(
    config: Store,
    view: str,
    spark: SparkSession | None,
    retry_s: float = 60.0,
    generation: int | None = None,
    declared: View | None = None,
    history: str = "",
    made_anew: bool = False,
) -> Sink:
    """The sink of one view in a configured store.

    ``spark`` is needed by Delta only. ``retry_s`` bounds how long a store that is down is waited
    for. ``generation`` names one (``Generations``); None is the one that people read
    when ``prepare`` is called, or the first. ``declared`` is what the configuration says of the
    view, for what a store lets it choose; ``history`` what the generation was declared with.
    ``made_anew``: whoever writes makes all rows anew when a column has another type.
    Clients are imported here, so that a store that is not used needs none.
    """
    if config.kind == "delta":
        from jobs.sinks.delta.history.table import DeltaHistory
        from jobs.sinks.delta.sink import DeltaSink
        from jobs.sinks.delta.table import DeltaView

        table = DeltaView(config, view, spark, retry_s, generation, declared, history)
        return DeltaHistory(table) if history else DeltaSink(table)
    if config.kind == "opensearch":
        from jobs.sinks.opensearch.sink import OpenSearchSink

        return OpenSearchSink(config, view, retry_s, generation, declared, made_anew)
    if config.kind == "postgres":
        from jobs.sinks.postgres.sink import PostgresSink

        return PostgresSink(config, view, retry_s, generation)
    from jobs.sinks.redis.sink import RedisSink

    return RedisSink(config, view, retry_s, generation, declared, made_anew)


def open_generations(
    config: Store,
    view: str,
    spark: SparkSession | None,
    retry_s: float = 60.0,
    declared: View | None = None,
    history: str = "",
) -> Generations:
    """A view's generations in a configured store; arguments as those of ``open_sink``."""
    if config.kind == "delta":
        from jobs.sinks.delta.generations import DeltaGenerations

        return DeltaGenerations(config, view, spark, retry_s, declared, history)
    if config.kind == "opensearch":
        from jobs.sinks.opensearch.generations import OpenSearchGenerations

        return OpenSearchGenerations(config, view, retry_s, declared)
    if config.kind == "postgres":
        from jobs.sinks.postgres.generations import PostgresGenerations

        return PostgresGenerations(config, view, retry_s)
    from jobs.sinks.redis.generations import RedisGenerations

    return RedisGenerations(config, view, retry_s, declared)
