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

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import OpenSearch, View
from cdc.errors import RetryableError, SinkError, ViewError
from cdc.lsn import Position
from jobs.sinks import COMMIT_LSN, ORDINAL, Batch, ViewRow
from jobs.sinks.bulk import document_id, stored
from jobs.sinks.cluster import Action, Client, Server
from jobs.sinks.documents import (
    Document,
    Documents,
    Stored,
    document_list,
    filled,
    row_decoder,
)
from jobs.sinks.indexes import alias_of, index_of, live_generation, owned, readers_alias
from jobs.sinks.mapping import (
    DELETED_AT,
    LIVE,
    below,
    declaration,
    index_body,
    metadata,
    properties,
)
from jobs.sinks.refusing import (
    RowsError,
    RowsRefusedError,
    RowsUnfitError,
    raise_together,
    refused_rows,
)
from jobs.sinks.schema import REBUILD, check_key, columns_from_json, evolved
from jobs.sinks.sending import Sending
from jobs.sinks.writing import with_keys, write_documents

TOMBSTONE_S = 24 * 3600
PURGE_BATCHES = 1_000
"""Old tombstones are removed once in so many batches."""
REMOVE_S = 3_600
"""A query over the whole index is waited for; it needs no answer in between."""
SCAN_DOCUMENTS = 2_000
READ_DOCUMENTS = 500

_T = TypeVar("_T")

log = structlog.get_logger("apply")


class OpenSearchSink:
    """A ``jobs.sinks.Sink`` over one cluster; ``generation`` None is what people read."""

    def __init__(
        self,
        config: OpenSearch,
        view: str,
        retry_s: float,
        generation: int | None = None,
        declared: View | None = None,
    ) -> None:
        self._view, self._wanted, self._declared = view, generation, declared
        self._index = self._alias = ""
        self._server = Server(
            config.url, config.user, config.password, config.verify_certs, retry_s
        )
        self._columns = StructType()
        self._key: tuple[str, ...] = ()
        self._documents: Documents | None = None
        self._batches = 0

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        number = self._wanted or self._call(partial(live_generation, view=self._view)) or 1
        self._index = index_of(self._view, number)
        self._alias = alias_of(self._index)
        there = self._call(partial(owned, view=self._view, name=self._index))
        if there:
            found = self._call(lambda client: client.indices.get(index=self._index))[self._index]
            self._extend(found["mappings"], columns, key)
            if self._alias not in found["aliases"]:  # made before there were such
                alias = {"index": self._index, "name": self._alias, "body": {"filter": LIVE}}
                self._call(lambda client: client.indices.put_alias(**alias))
        else:
            self._create(columns, key)
        self._columns, self._key = columns, key
        self._documents = None
        return not there

    def _create(self, columns: StructType, key: tuple[str, ...]) -> None:
        aliases = readers_alias(self._view), self._alias
        body = index_body(self._view, columns, key, aliases, self._declared)
        if shown := self._call(partial(owned, view=self._view, name=aliases[0])):
            raise ViewError(
                f"view {self._view}: OpenSearch has no index {self._index}, and shows {shown[0]}",
                REBUILD,
            )
        self._server.declare(
            f"view {self._view}: index {self._index}",
            lambda client: client.indices.create(index=self._index, body=body),
        )

    def _extend(self, mapping: dict[str, Any], columns: StructType, key: tuple[str, ...]) -> None:
        meta = mapping["_meta"]
        check_key(self._view, meta["key"], key)
        wanted = declaration(self._declared)
        if meta.get("declared", declaration(None)) != wanted:
            log.warning("index_kept_as_it_was_built", view=self._view, index=self._index)
        held = columns_from_json(meta["columns"])
        whole = evolved(self._view, held, columns)
        if whole == held:
            return
        added = StructType([column for column in whole if column.name not in held.names])
        body = {
            "_meta": {**metadata(self._view, whole, key), "declared": meta.get("declared")},
            "properties": properties(self._view, added, self._declared),
        }
        self._server.declare(
            f"view {self._view}: index {self._index}",
            lambda client: client.indices.put_mapping(index=self._index, body=body),
        )

    def documents(self) -> Documents:
        """What makes them of rows."""
        self._documents = self._documents or Documents(self._columns, self._key)
        return self._documents

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        with self._shown() as writer:
            write_documents(self.documents()(rows), batch.keys, writer)

    def write(self, documents: pa.Table) -> None:
        """As ``apply``, of few."""
        with self._shown() as writer:
            writer(document_list(documents))

    @contextmanager
    def _shown(self) -> Iterator[OpenSearchWriter]:
        """What is written herein can be searched at the end."""
        try:
            yield OpenSearchWriter(self._server, self._view, self._alias)
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
        writer = OpenSearchWriter(self._server, self._view, self._alias)
        self._refresh()
        for hits in self._pages({"query": below(before), "_source": False}):
            writer([Document(hit["_id"], None, before, ()) for hit in hits])
        self._refresh()

    def scan(self) -> Iterator[ViewRow]:
        decode = row_decoder(self._columns, self._key)
        for hits in self._pages({}):
            for hit in hits:
                source = hit["_source"]
                # What somebody else wrote has no position: it is older than all.
                yield decode(source, Position(source.get(COMMIT_LSN, 0), source.get(ORDINAL, 0)))

    def _pages(self, what: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
        """What a search of the alias finds, as it was when it began. Raises ``RetryableError`` when
        the server forgot it meanwhile: a node was started anew."""
        body = {"size": SCAN_DOCUMENTS, "sort": ["_doc"], **what}
        page = self._call(lambda client: client.search(index=self._alias, body=body, scroll="5m"))
        cursor = {"scroll": "5m", "scroll_id": page["_scroll_id"]}
        try:
            while hits := page["hits"]["hits"]:
                yield hits
                page = self._next_page(cursor)
                cursor["scroll_id"] = page["_scroll_id"]
        finally:
            done = {"scroll_id": [cursor["scroll_id"]]}
            self._call(lambda client: client.clear_scroll(body=done, ignore=404))

    def _next_page(self, cursor: dict[str, str]) -> dict[str, Any]:
        try:
            return self._call(lambda client: client.scroll(body=cursor))
        except SinkError as error:
            if getattr(error.__cause__, "status_code", 0) != 404:
                raise
            raise RetryableError(
                f"{self._server.place} forgot what was searched in {self._alias}",
                "it was started anew: the search begins again with the batch, or the command",
            ) from error

    def close(self) -> None:
        """Nothing to let go: the process has one client, and other views write through it."""

    def _refresh(self) -> None:
        self._call(lambda client: client.indices.refresh(index=self._alias))

    def _remove(self, query: dict[str, Any]) -> None:
        """Remove what a query finds, whatever the alias hides, and show that it is gone."""
        self._refresh()
        self._call(
            lambda client: client.delete_by_query(
                index=self._index,
                body={"query": query},
                params={"conflicts": "proceed", "refresh": "true", "request_timeout": REMOVE_S},
            )
        )

    def _call(self, action: Action[_T]) -> _T:
        return self._server.call(action)


@dataclass(frozen=True, slots=True)
class OpenSearchWriter:
    """Writes documents from any process: the connection is made where it is called."""

    server: Server
    view: str
    alias: str

    def __call__(self, documents: list[Document]) -> None:
        errors: list[RowsError] = []
        whole = with_keys(self.view, documents, errors)
        if any(document.unchanged for document in whole):
            whole = self._filled(whole, errors)
        first = Sending(self.server, self.alias, "external", whole)
        first.run()
        second = Sending(self.server, self.alias, "external_gte", self._later(first.ties))
        second.run()
        if refused := first.refused + second.refused:
            where = f"index {self.alias}: {self.server.place}"
            errors.insert(0, refused_rows(where, refused, REBUILD))
        raise_together(errors)

    def _later(self, ties: Sequence[Document]) -> list[Document]:
        """Of documents with the stored one's version, those later in that transaction."""
        held = self._read(ties, f"{COMMIT_LSN},{ORDINAL}")
        return [
            document
            for document, other in zip(ties, held, strict=True)
            if other is not None and other.position < document.position
        ]

    def _filled(self, documents: Sequence[Document], errors: list[RowsError]) -> list[Document]:
        lacking = [document for document in documents if document.unchanged]
        whole = [document for document in documents if not document.unchanged]
        return whole + filled(self.view, lacking, self._read(lacking, "*"), errors)

    def _read(self, documents: Sequence[Document], fields: str) -> list[Stored | None]:
        found: list[Stored | None] = []
        for start in range(0, len(documents), READ_DOCUMENTS):
            part = documents[start : start + READ_DOCUMENTS]
            body = {"ids": [document_id(document.id) for document in part]}
            answer = self.server.call(partial(_read, self.alias, body, fields))
            found += [stored(item) for item in answer["docs"]]
        return found


def _read(alias: str, body: dict[str, Any], fields: str, client: Client) -> Any:
    return client.mget(index=alias, body=body, params={"_source_includes": fields})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
