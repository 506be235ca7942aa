"""Views in Redis: one hash per row, written by compare-and-set inside the server.

``<view>@<generation>:<key>`` holds ``doc``, the row as JSON (``jobs.sinks.documents``), and
``pos``, its position in 24 hex digits. A deleted row keeps ``pos`` alone for ``TOMBSTONE_S``, so
that a late older change does not bring it back. ``<view>@live`` names the generation that people
read, ``<view>@2``: one SET switches them all. ``__headwater:<view>@<generation>`` holds its columns
and key; no view's name starts with an underscore, so it is never a row. Rows of one call may lie
in any hash slot: Redis Cluster is not supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar

import orjson
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Redis
from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.sinks import Batch, ViewRow
from jobs.sinks.documents import (
    Document,
    Documents,
    Stored,
    document_rows,
    filled,
    parse_position,
    row_decoder,
)
from jobs.sinks.keyspace import (
    Action,
    Client,
    HeldByOtherError,
    call,
    connect,
    evaluate,
    shared_client,
)
from jobs.sinks.refusing import Refused, RowsError, RowsRefusedError, raise_together
from jobs.sinks.schema import check_key, columns_from_json, columns_json, evolved
from jobs.sinks.writing import with_keys, write_documents

TOMBSTONE_S = 24 * 3600
CALL_ROWS = 500
"""Rows in one script call: the server answers nobody else meanwhile (about 2 ms)."""
SCAN_KEYS = 5_000

_GLOB = re.compile(r"([\\*?\[\]])")
_T = TypeVar("_T")


def prefix(view: str, generation: int) -> str:
    """What the keys of a generation's rows begin with, up to a colon."""
    return f"{view}@{generation}"


def live_key(view: str) -> str:
    """Holds the prefix of the rows that people read."""
    return f"{view}@live"


def description_key(rows: str) -> str:
    """The hash that describes the rows under a prefix."""
    return f"__headwater:{rows}"


def live_generation(client: Client, view: str) -> int | None:
    """The generation that people read, None if the view was never filled."""
    held = client.get(live_key(view))
    return None if held is None else int(held.rpartition(b"@")[2])


class RedisSink:
    """A ``jobs.sinks.Sink`` over one Redis database; ``generation`` None is what people read."""

    def __init__(
        self, config: Redis, view: str, retry_s: float, generation: int | None = None
    ) -> None:
        self._view, self._url, self._retry_s = view, config.url, retry_s
        self._client = connect(config.url)
        self._wanted = generation
        self._prefix = ""
        self._columns = StructType()
        self._key: tuple[str, ...] = ()
        self._documents: Documents | None = None

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        generation = self._wanted or self._call(partial(live_generation, view=self._view)) or 1
        self._prefix = prefix(self._view, generation)
        self._refuse_unnumbered()
        created = self.describe(columns, key)
        if created:
            self._call(lambda client: client.set(live_key(self._view), self._prefix, nx=True))
        return created

    def describe(self, columns: StructType, key: tuple[str, ...]) -> bool:
        """Write down what the generation holds, shown to people or not; true if it was new."""
        self._prefix = self._prefix or prefix(self._view, self._wanted or 1)
        name = description_key(self._prefix)
        held = self._call(lambda client: client.hgetall(name))
        stored = StructType()
        if held:
            check_key(self._view, orjson.loads(held[b"key"]), key)
            stored = columns_from_json(held[b"columns"].decode())
        whole = evolved(self._view, stored, columns)
        entry = {"key": orjson.dumps(key), "columns": columns_json(whole)}
        self._call(lambda client: client.hset(name, mapping=entry))
        self._columns, self._key = columns, key
        self._documents = None
        return not held

    def _refuse_unnumbered(self) -> None:
        names = description_key(self._view), description_key(self._prefix)
        unnumbered, numbered = self._call(lambda client: [client.exists(name) for name in names])
        if unnumbered and not numbered:
            raise ViewError(
                f"view {self._view}: Redis holds its rows as an older Headwater wrote them",
                f"run `headwater view rebuild {self._view}`, or empty the database and its state",
            )

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        writer = RedisWriter(self._url, self._view, self._prefix, self._retry_s)
        self._documents = self._documents or document_rows(self._columns, self._key)
        write_documents(self._documents(rows), batch.keys, writer)

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        bounds = (TOMBSTONE_S, before.hex())
        for keys in self._keys():
            for part in _parts(keys, CALL_ROWS):
                self._call(partial(evaluate, script="truncate.lua", names=part, arguments=bounds))

    def scan(self) -> Iterator[ViewRow]:
        decode = row_decoder(self._columns, self._key)
        seen: set[bytes] = set()  # SCAN may give a key twice while its table grows or shrinks
        for keys in self._keys():
            fresh = [key for key in dict.fromkeys(keys) if key not in seen]
            seen.update(fresh)
            for stored in self._call(partial(_read, names=fresh)):
                if stored is not None and stored.body is not None:
                    yield decode(stored.body, stored.position)

    def close(self) -> None:
        self._client.close()

    def _keys(self) -> Iterator[list[bytes]]:
        """Every key of the generation, tombstones too, page by page."""
        return keys_of(self._prefix, self._call)

    def _call(self, action: Action[_T]) -> _T:
        return call(self._client, self._url, self._retry_s, action)


@dataclass(frozen=True, slots=True)
class RedisWriter:
    """Writes documents from any process: the connection is made where it is called."""

    url: str = field(repr=False)
    view: str
    prefix: str
    retry_s: float

    def __call__(self, documents: list[Document]) -> None:
        errors: list[RowsError] = []
        for part in _parts(with_keys(self.view, documents, errors), CALL_ROWS):
            self._write(part, errors)
        raise_together(errors)

    def _write(self, documents: Sequence[Document], errors: list[RowsError]) -> None:
        """Write a part, or its halves where one of its keys is held by something else."""
        try:
            self._put(documents, errors)
        except HeldByOtherError as error:
            if len(documents) > 1:
                half = len(documents) // 2
                self._write(documents[:half], errors)
                self._write(documents[half:], errors)
                return
            row = Refused(documents[0].id, documents[0].position, "its key in Redis is taken")
            errors.append(RowsRefusedError(error.message, error.hint, [row]))

    def _put(self, documents: Sequence[Document], errors: list[RowsError]) -> None:
        filling: list[RowsError] = []
        if any(document.unchanged for document in documents):
            documents = self._fill(documents, filling)
        names = [self._name(document.id) for document in documents]
        arguments: list[str | int] = [TOMBSTONE_S]
        for document in documents:
            arguments += (document.position.hex(), document.body or "")
        self._call(partial(evaluate, script="apply.lua", names=names, arguments=arguments))
        errors += filling  # not before: halves are filled again

    def _fill(self, documents: Sequence[Document], errors: list[RowsError]) -> list[Document]:
        lacking = [document for document in documents if document.unchanged]
        names = [self._name(document.id) for document in lacking]
        stored = self._call(partial(_read, names=names))
        whole = [document for document in documents if not document.unchanged]
        return whole + filled(self.view, lacking, stored, errors)

    def _name(self, key: str) -> str:
        return f"{self.prefix}:{key}"

    def _call(self, action: Action[_T]) -> _T:
        return call(shared_client(self.url), self.url, self.retry_s, action)


def keys_of(rows: str, ask: Callable[[Action[Any]], Any]) -> Iterator[list[bytes]]:
    """Every key under a prefix, page by page; one may come twice."""
    pattern = _GLOB.sub(r"\\\1", rows) + ":*"
    cursor = 0
    while True:
        cursor, keys = ask(methodcaller("scan", cursor, pattern, SCAN_KEYS))
        if keys:
            yield keys
        if cursor == 0:
            return


def _read(client: Client, names: Sequence[str | bytes]) -> list[Stored | None]:
    """What is held under each name, tombstones too."""
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.hmget(name, ["pos", "doc"])
    return [
        None
        if position is None
        else Stored(parse_position(position.decode()), document and orjson.loads(document))
        for position, document in pipeline.execute()
    ]


def _parts(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
