"""The generations of a view in its store: filled apart, shown to readers at one moment.

A generation is a place of its own, told by its number. Whoever reads the view reads one of them,
the live one, and finds another whole one after a switch, never something empty or half filled.

    Delta       ``<path>/<view>@<n>`` until it is live; a switch is one commit on ``<path>/<view>``
    OpenSearch  index ``<view>-<n>``; the alias ``<view>`` is moved in one request
    Redis       rows ``<view>@<n>:<key>``; ``<view>@live`` is set to ``<view>@<n>``
    PostgreSQL  table ``<view>@<n>``; the view ``<view>`` is replaced in one transaction
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from cdc.config import Store, View
    from jobs.sinks.rows import Rows


class Live(NamedTuple):
    """What readers see. ``mark`` is what ``switch`` needs to come back to it later. ``history``:
    as what it keeps what rows were, which no snapshot brings back."""

    number: int
    mark: str
    history: str = ""


class Generations(Protocol):
    """One view's generations in one store. Every call may be repeated after a crash."""

    def live(self) -> Live | None:
        """What readers see, None while there is nothing."""

    def load(
        self,
        number: int,
        rows: DataFrame | Iterable[Rows],
        columns: StructType,
        key: tuple[str, ...],
    ) -> None:
        """Make a generation of ``rows``: each a live row of ``Sink.apply``'s form, or finished.

        Whatever the place held is gone first. Readers see nothing of it. Raises what
        ``Sink.prepare`` and ``Sink.apply`` raise.
        """

    def switch(self, number: int, mark: str = "") -> None:
        """Let readers see a generation, from one moment to the next; nothing if they do.

        ``mark`` is what ``live`` gave when the generation was left, empty if it never was live.
        """

    def drop(self, number: int) -> None:
        """Delete a generation's rows; of the live one, the view is gone from the store."""

    def close(self) -> None:
        """Release connections. Calling it twice is fine."""


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
