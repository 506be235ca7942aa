"""Views in OpenSearch: one document per row, versioned by the LSN of its commit.

The index of a generation is ``<view>-<number>`` and people read the live one by the alias
``<view>``, which moves from one to the next at once. Headwater itself reads and writes a
generation by the alias ``<view>-<number>.rows``. Documents are those of
``jobs.sinks.documents`` plus ``__commit_lsn`` and ``__ordinal``. A write carries the commit LSN as
its external version, so OpenSearch itself refuses older ones (409, which is success). Equal ones,
changes of one transaction that came in two batches, are refused at first too and then decided by
the stored ordinal.

OpenSearch forgets the version of a deleted document within minutes, or when a node restarts. So a
deleted row stays for ``TOMBSTONE_S`` as a document with ``__deleted_at``, which aliases filter
out of searches (but not out of ``GET <view>/_doc/<id>``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import structlog
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import OpenSearch, View
from cdc.errors import ViewError
from cdc.log_events import LogEvent
from cdc.lsn import Position
from jobs.sinks.batch_writer import write_documents
from jobs.sinks.contract import COMMIT_LSN, ORDINAL, Batch, ViewRow
from jobs.sinks.documents import (
    Document,
    Documents,
    row_decoder,
)
from jobs.sinks.key_names import Keys, among, are_plain, key_name
from jobs.sinks.opensearch.bulk import document_id
from jobs.sinks.opensearch.client import Action, server_of
from jobs.sinks.opensearch.indexes import (
    alias_of,
    create,
    index_of,
    live_generation,
    owned,
    readers_alias,
)
from jobs.sinks.opensearch.json_fields import json_fields, refuse_objects, text_of
from jobs.sinks.opensearch.mapping import (
    DELETED_AT,
    LIVE,
    below,
    declaration,
    index_body,
    metadata,
    properties,
)
from jobs.sinks.opensearch.search import pages
from jobs.sinks.opensearch.writer import OpenSearchWriter
from jobs.sinks.row_errors import (
    RowsRefusedError,
    RowsUnfitError,
)
from jobs.sinks.rows import Rows, write
from jobs.sinks.schema_evolution import REBUILD, check_key, columns_from_json, evolved_documents

TOMBSTONE_S = 24 * 3600
PURGE_BATCHES = 1_000
"""Old tombstones are removed once in so many batches."""
REMOVE_S = 3_600
"""A query over the whole index is waited for; it needs no answer in between."""

_T = TypeVar("_T")

log = structlog.get_logger("apply")


class OpenSearchSink:
    """A ``jobs.sinks.contract.Sink`` over one cluster; ``generation`` None is what people read."""

    def __init__(
        self,
        config: OpenSearch,
        view: str,
        retry_s: float,
        generation: int | None = None,
        declared: View | None = None,
        made_anew: bool = False,
    ) -> None:
        self._view, self._wanted, self._declared = view, generation, declared
        self._made_anew = made_anew
        self._index = self._alias = ""
        self._server = server_of(config, retry_s)
        self._columns = StructType()
        self._key: tuple[str, ...] = ()
        self._objects: tuple[str, ...] = ()
        self._mapping = declared.mapping if declared else {}
        self._documents: Documents | None = None
        self._batches = 0

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        number = self._wanted or self._call(partial(live_generation, view=self._view)) or 1
        self._index = index_of(self._view, number)
        self._alias = alias_of(self._index)
        there = self._call(partial(owned, view=self._view, name=self._index))
        if there:
            found = self._call_on(lambda client: client.indices.get(index=self._index))[self._index]
            self._extend(found["mappings"], columns, key)
            if self._alias not in found["aliases"]:  # made before there were such
                alias = {"index": self._index, "name": self._alias, "body": {"filter": LIVE}}
                self._call_on(lambda client: client.indices.put_alias(**alias))
        else:
            self._create(columns, key)
        self._columns, self._key = columns, key
        self._objects = json_fields(self._view, columns, self._mapping)
        if not self._made_anew:
            refuse_objects(self._view, self._objects)
        self._documents = None
        return not there

    def _create(self, columns: StructType, key: tuple[str, ...]) -> None:
        aliases = readers_alias(self._view), self._alias
        body = index_body(self._view, columns, key, aliases, self._declared)
        if shown := self._call(partial(owned, view=self._view, name=aliases[0])):
            raise ViewError(
                f"view {self._view}: OpenSearch has no index {self._index}; the alias points to "
                f"{shown[0]}",
                REBUILD,
            )
        create(self._server, self._view, self._index, body)

    def _extend(self, mapping: dict[str, Any], columns: StructType, key: tuple[str, ...]) -> None:
        meta = mapping["_meta"]
        check_key(self._view, meta["key"], key)
        wanted = declaration(self._declared)
        if meta.get("declared", declaration(None)) != wanted:
            log.warning(
                LogEvent.INDEX_KEPT_AS_IT_WAS_BUILT,
                view=self._view,
                index=self._index,
                reason="its mapping or settings were declared otherwise",
                way_out=f"run `headwater view rebuild {self._view}` for a new index",
            )
        self._mapping = json.loads(meta.get("declared") or "{}").get("mapping", {})
        held = columns_from_json(meta["columns"])
        whole = evolved_documents(self._view, held, columns, key, self._made_anew)
        if whole == held:
            return
        added = StructType([column for column in whole if column.name not in held.names])
        body = {
            "_meta": {**metadata(self._view, whole, key), "declared": meta.get("declared")},
            "properties": properties(self._view, added, self._declared),
        }
        self._server.declare(
            f"view {self._view}: index {self._index}",
            self._index,
            lambda client: client.indices.put_mapping(index=self._index, body=body),
        )

    def documents(self) -> Documents:
        """What makes them of rows."""
        self._documents = self._documents or Documents(self._columns, self._key)
        return self._documents

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        with self._shown() as writer:
            write_documents(self.documents()(rows), batch.keys, writer)

    def write_rows(self, rows: Rows, batch: Batch) -> None:  # noqa: ARG002
        with self._shown() as writer:
            write(self._view, rows, writer)

    @contextmanager
    def _shown(self) -> Iterator[OpenSearchWriter]:
        """What is written herein can be searched at the end."""
        try:
            yield OpenSearchWriter(self._server, self._view, self._alias, self._objects)
        except (RowsRefusedError, RowsUnfitError):
            self._refresh()  # the others are there
            raise
        self._refresh()
        self._batches += 1
        if self._batches % PURGE_BATCHES == 1:
            self._remove({"range": {DELETED_AT: {"lt": _now_ms() - TOMBSTONE_S * 1000}}})

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        # Deleted like any row, at the position of the TRUNCATE. A delete by query would leave a
        # version of its own, which refuses what the same transaction inserts next.
        writer = OpenSearchWriter(self._server, self._view, self._alias, self._objects)
        self._refresh()
        for hits in pages(self._server, self._alias, {"query": below(before), "_source": False}):
            writer([Document(hit["_id"], None, before, ()) for hit in hits])
        self._refresh()

    def scan(self, keys: Keys | None = None) -> Iterator[ViewRow]:
        what: dict[str, Any] = {}
        if keys is not None and are_plain(self._columns, self._key):
            ids = [document_id(key_name(values)) for values in keys]
            what, keys = {"query": {"ids": {"values": ids}}}, None
        return among(self._found(what), keys)

    def _found(self, what: dict[str, Any]) -> Iterator[ViewRow]:
        decode = row_decoder(self._columns, self._key)
        server = replace(self._server, exact=True) if self._objects else self._server
        for hits in pages(server, self._alias, what):
            for hit in hits:
                source = hit["_source"]
                for name in self._objects:
                    if source.get(name) is not None:
                        source[name] = text_of(source[name])
                # What somebody else wrote has no position: it is older than all.
                yield decode(source, Position(source.get(COMMIT_LSN, 0), source.get(ORDINAL, 0)))

    def close(self) -> None:
        """Nothing to let go: the process has one client, and other views write through it."""

    def _refresh(self) -> None:
        self._call_on(lambda client: client.indices.refresh(index=self._alias))

    def _remove(self, query: dict[str, Any]) -> None:
        """Remove what a query finds, whatever the alias hides, and show that it is gone."""
        self._refresh()
        self._call_on(
            lambda client: client.delete_by_query(
                index=self._index,
                body={"query": query},
                params={"conflicts": "proceed", "refresh": "true", "request_timeout": REMOVE_S},
            )
        )

    def _call(self, action: Action[_T]) -> _T:
        return self._server.call(action)

    def _call_on(self, action: Action[_T]) -> _T:
        return self._server.call_on(self._index, action)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
