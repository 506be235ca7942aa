"""The generations of a view in OpenSearch: indexes, and one alias that people read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import OpenSearch, View
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.batch_writer import write_documents
from jobs.sinks.contract import Live
from jobs.sinks.documents import Documents
from jobs.sinks.opensearch.client import Action, BusyError, Client, server_of
from jobs.sinks.opensearch.indexes import (
    alias_of,
    create,
    index_of,
    live_generation,
    owned,
    readers_alias,
)
from jobs.sinks.opensearch.json_fields import json_fields, refuse_objects
from jobs.sinks.opensearch.mapping import LIVE, index_body
from jobs.sinks.opensearch.overrides import filled, filling
from jobs.sinks.opensearch.writer import OpenSearchWriter
from jobs.sinks.rows import Rows, write_each

_T = TypeVar("_T")


class OpenSearchGenerations:
    """``jobs.sinks.contract.Generations`` of one view in one cluster."""

    def __init__(
        self, config: OpenSearch, view: str, retry_s: float, declared: View | None = None
    ) -> None:
        self._view, self._alias, self._declared = view, readers_alias(view), declared
        self._server = server_of(config, retry_s)

    def live(self) -> Live | None:
        number = self._call(partial(live_generation, view=self._view))
        return None if number is None else Live(number, "")

    def load(
        self,
        number: int,
        rows: DataFrame | Iterable[Rows],
        columns: StructType,
        key: tuple[str, ...],
    ) -> None:
        index = index_of(self._view, number)
        body = index_body(self._view, columns, key, (alias_of(index),), self._declared)
        objects = json_fields(self._view, columns, self._declared.mapping if self._declared else {})
        if isinstance(rows, DataFrame):
            refuse_objects(self._view, objects)
        settings = body["settings"]
        body["settings"] = filling(settings)
        self.live()  # refuses what is somebody else's
        self.drop(number)
        create(self._server, self._view, index, body)
        writer = OpenSearchWriter(self._server, self._view, alias_of(index), objects)
        if isinstance(rows, DataFrame):
            write_documents(Documents(columns, key)(rows), FEW_ROWS + 1, writer)
        else:
            write_each(self._view, rows, writer)
        full = {"index": filled(settings)}
        for action in (
            lambda client: client.indices.put_settings(index=index, body=full),
            lambda client: client.indices.flush(index=index),
            lambda client: client.indices.refresh(index=index),
        ):
            self._server.call_on(index, action)

    def switch(self, number: int, mark: str = "") -> None:  # noqa: ARG002
        index = index_of(self._view, number)
        actions: list[dict[str, Any]] = [
            {"remove": {"index": name, "alias": self._alias}}
            for name in self._call(partial(owned, view=self._view, name=self._alias))
            if name != index
        ]
        actions.append({"add": {"index": index, "alias": self._alias, "filter": LIVE}})
        self._call(lambda client: client.indices.update_aliases(body={"actions": actions}))

    def drop(self, number: int) -> None:
        name = index_of(self._view, number)

        def dropped(client: Client) -> None:
            for index in owned(client, self._view, name):
                client.indices.delete(index=index, ignore=404)
            if owned(client, self._view, name):  # a node that is just starting has none to delete
                raise BusyError(f"{self._server.place} does not know {name} yet")

        self._call(dropped)

    def close(self) -> None:
        """Nothing to let go: the process has one client, and other views write through it."""

    def _call(self, action: Action[_T]) -> _T:
        return self._server.call(action)
