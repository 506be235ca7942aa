"""The generations of a view in Redis: key prefixes, and one key that names the live one."""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Redis
from jobs.sinks.documents import document_rows
from jobs.sinks.generations import Live
from jobs.sinks.keyspace import Action, call, connect
from jobs.sinks.redis import (
    RedisSink,
    RedisWriter,
    description_key,
    keys_of,
    live_generation,
    live_key,
    prefix,
)
from jobs.sinks.writing import DRIVER_ROWS, write_documents

_T = TypeVar("_T")


class RedisGenerations:
    """``jobs.sinks.generations.Generations`` of one view in one database."""

    def __init__(self, config: Redis, view: str, retry_s: float) -> None:
        self._config, self._view, self._retry_s = config, view, retry_s
        self._client = connect(config.url)

    def live(self) -> Live | None:
        number = self._call(partial(live_generation, view=self._view))
        return None if number is None else Live(number, "")

    def load(self, number: int, rows: DataFrame, columns: StructType, key: tuple[str, ...]) -> None:
        self.drop(number)
        sink = RedisSink(self._config, self._view, self._retry_s, number)
        try:
            sink.describe(columns, key)
        finally:
            sink.close()
        writer = RedisWriter(
            self._config.url, self._view, prefix(self._view, number), self._retry_s
        )
        write_documents(document_rows(columns, key)(rows), DRIVER_ROWS + 1, writer)

    def switch(self, number: int, mark: str = "") -> None:  # noqa: ARG002
        rows = prefix(self._view, number)
        self._call(lambda client: client.set(live_key(self._view), rows))

    def drop(self, number: int) -> None:
        rows = prefix(self._view, number)
        live = self.live()
        if live is not None and live.number == number:
            self._call(lambda client: client.delete(live_key(self._view)))
        self._call(lambda client: client.delete(description_key(rows)))
        for keys in keys_of(rows, self._call):
            self._call(methodcaller("unlink", *keys))

    def close(self) -> None:
        self._client.close()

    def _call(self, action: Action[_T]) -> _T:
        return call(self._client, self._config.url, self._retry_s, action)
