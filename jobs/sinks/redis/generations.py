"""The generations of a view in Redis: key prefixes, and one key that names the live one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Redis, View
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.batch_writer import write_documents
from jobs.sinks.contract import Live
from jobs.sinks.redis.client import Keyspace
from jobs.sinks.redis.layout import gone_key
from jobs.sinks.redis.sink import (
    RedisSink,
    address_of,
    description_key,
    keys_of,
    live_generation,
    live_key,
    prefix,
)
from jobs.sinks.rows import Rows, write_each


class RedisGenerations:
    """``jobs.sinks.contract.Generations`` of one view in one database."""

    def __init__(
        self, config: Redis, view: str, retry_s: float, declared: View | None = None
    ) -> None:
        self._config, self._view, self._retry_s = config, view, retry_s
        self._declared = declared
        self._keyspace = Keyspace(address_of(config, retry_s))

    def live(self) -> Live | None:
        number = self._keyspace.call(partial(live_generation, view=self._view))
        return None if number is None else Live(number, "")

    def load(
        self,
        number: int,
        rows: DataFrame | Iterable[Rows],
        columns: StructType,
        key: tuple[str, ...],
    ) -> None:
        self.drop(number)
        sink = RedisSink(self._config, self._view, self._retry_s, number, self._declared)
        try:
            sink.describe(columns, key)
            if isinstance(rows, DataFrame):
                write_documents(sink.documents()(rows), FEW_ROWS + 1, sink.writer)
            else:
                write_each(self._view, rows, sink.writer)
        finally:
            sink.close()

    def switch(self, number: int, mark: str = "") -> None:  # noqa: ARG002
        rows = prefix(self._view, number)
        self._keyspace.call(lambda client: client.set(live_key(self._view), rows))

    def drop(self, number: int) -> None:
        rows = prefix(self._view, number)
        live = self.live()
        if live is not None and live.number == number:
            self._keyspace.call(lambda client: client.delete(live_key(self._view)))
        self._keyspace.call(lambda client: client.delete(description_key(rows)))
        gone = gone_key(f"{rows}:").removesuffix("}")
        for beginning in (f"{rows}:", f"{rows}#", gone):
            for keys in keys_of(self._keyspace, beginning):
                self._keyspace.unlink(keys)

    def close(self) -> None:
        self._keyspace.close()
