"""Views in Redis: one hash per row, written by compare-and-set inside the server.

``<view>:<key>`` holds ``doc``, the row as JSON (``jobs.sinks.documents``), and ``pos``, its
position in 24 hex digits. A deleted row keeps ``pos`` alone for ``TOMBSTONE_S``, so that a late
older change does not bring it back. ``__headwater:<view>`` holds the view's columns and key; no
view's name starts with an underscore, so it is never a row. Rows of one call may lie in any hash
slot: Redis Cluster is not supported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from operator import methodcaller
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import orjson
import redis
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from redis.backoff import NoBackoff
from redis.exceptions import AuthorizationError, NoPermissionError, NoScriptError
from redis.retry import Retry

from cdc.config import Redis
from cdc.errors import RetryableError, SinkError
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
from jobs.sinks.schema import check_key, columns_from_json, columns_json, evolved
from jobs.sinks.writing import check_keys, until, write_documents

TOMBSTONE_S = 24 * 3600
CALL_ROWS = 500
"""Rows in one script call: the server answers nobody else meanwhile (about 2 ms)."""
SCAN_KEYS = 5_000
TIMEOUT_S = 30.0

_GLOB = re.compile(r"([\\*?\[\]])")
_PASSING_HINTS = {
    "OOM": "raise maxmemory, or make room",
    "READONLY": "point the store's url at the primary",
    "MISCONF": "see the server's log: it cannot save its data",
    "BUSY": "a script blocks the server: SCRIPT KILL ends it",
    "LOADING": "wait until it has loaded its data",
    "MASTERDOWN": "see why the replica lost its primary",
    "NOREPLICAS": "start the replicas that min-replicas-to-write asks for",
}
_PASSING = re.compile(rf"\b({'|'.join(_PASSING_HINTS)})\b")
_T = TypeVar("_T")
Client: TypeAlias = Any
"""``redis.Redis``: its methods are typed for the blocking and the async client at once."""
Action = Callable[[Client], _T]


class _RefusingError(RetryableError):
    """The server answers, but takes no writes for now (memory, replica, loading)."""


class RedisSink:
    """A ``jobs.sinks.Sink`` over one Redis database."""

    def __init__(self, config: Redis, view: str, retry_s: float) -> None:
        self._view, self._url, self._retry_s = view, config.url, retry_s
        self._client = connect(config.url)
        self._columns = StructType()
        self._key: tuple[str, ...] = ()
        self._documents: Documents | None = None

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        name = f"__headwater:{self._view}"
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

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        writer = RedisWriter(self._url, self._view, self._retry_s)
        self._documents = self._documents or document_rows(self._columns, self._key)
        write_documents(self._documents(rows), batch.keys, writer)

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        bounds = (TOMBSTONE_S, before.hex())
        for keys in self._keys():
            for part in _parts(keys, CALL_ROWS):
                self._call(partial(_evaluate, script="truncate.lua", names=part, arguments=bounds))

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
        """Every key of the view, tombstones too, page by page."""
        pattern = _GLOB.sub(r"\\\1", self._view) + ":*"
        cursor = 0
        while True:
            cursor, keys = self._call(methodcaller("scan", cursor, pattern, SCAN_KEYS))
            if keys:
                yield keys
            if cursor == 0:
                return

    def _call(self, action: Action[_T]) -> _T:
        return call(self._client, self._url, self._retry_s, action)


@dataclass(frozen=True, slots=True)
class RedisWriter:
    """Writes documents from any process: the connection is made where it is called."""

    url: str = field(repr=False)
    view: str
    retry_s: float

    def __call__(self, documents: list[Document]) -> None:
        check_keys(self.view, documents)
        for part in _parts(documents, CALL_ROWS):
            self._write(part)

    def _write(self, documents: Sequence[Document]) -> None:
        if any(document.unchanged for document in documents):
            documents = self._fill(documents)
        names = [self._name(document.id) for document in documents]
        arguments: list[str | int] = [TOMBSTONE_S]
        for document in documents:
            arguments += (document.position.hex(), document.body or "")
        self._call(partial(_evaluate, script="apply.lua", names=names, arguments=arguments))

    def _fill(self, documents: Sequence[Document]) -> list[Document]:
        lacking = [document for document in documents if document.unchanged]
        names = [self._name(document.id) for document in lacking]
        stored = self._call(partial(_read, names=names))
        whole = [document for document in documents if not document.unchanged]
        return whole + filled(self.view, lacking, stored)

    def _name(self, key: str) -> str:
        return f"{self.view}:{key}"

    def _call(self, action: Action[_T]) -> _T:
        return call(_shared_client(self.url), self.url, self.retry_s, action)


def connect(url: str) -> Client:
    """A client that never retries by itself: ``call`` decides what may be tried again."""
    try:
        return redis.Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=5,
            health_check_interval=30,
        )
    except ValueError as error:
        raise SinkError(f"not a Redis URL: {error}", "write redis://host:port/database") from None


@cache
def _shared_client(url: str) -> Client:
    """One client a process, for writers that come and go with their batches."""
    return connect(url)


def call(client: Client, url: str, retry_s: float, action: Action[_T]) -> _T:
    """Run ``action``, again for up to ``retry_s`` while the server is away or takes no writes."""
    try:
        return until(retry_s, lambda: _attempt(client, url, action))
    except _RefusingError as error:
        raise SinkError(error.message, error.hint) from error


def _attempt(client: Client, url: str, action: Action[_T]) -> _T:
    try:
        return action(client)
    except (redis.AuthenticationError, AuthorizationError, NoPermissionError) as error:
        raise SinkError(
            f"Redis at {_place(url)} refused the login or lacks a right: {error}",
            "check user and password in the store's url",
        ) from error
    except redis.BusyLoadingError as error:
        raise RetryableError(f"Redis at {_place(url)} is loading its data") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise RetryableError(
            f"Redis at {_place(url)} does not answer ({type(error).__name__})",
            "start it, or correct the store's url",
        ) from error
    except redis.ResponseError as error:
        raise _refused(str(error), url) from error


def _refused(answer: str, url: str) -> RetryableError | SinkError:
    """The server's own error; its text names commands and keys' types, never values."""
    if match := _PASSING.search(answer):
        return _RefusingError(
            f"Redis at {_place(url)} takes no writes: {match[1]}", _PASSING_HINTS[match[1]]
        )
    code = answer.partition(" ")[0]
    if "WRONGTYPE" in answer:
        return SinkError(
            f"Redis at {_place(url)}: a key of the view is held by something else ({code})",
            "use a database of its own for the view, or rename the view",
        )
    return SinkError(f"Redis at {_place(url)} refused a command: {answer.splitlines()[0][:200]}")


def _place(url: str) -> str:
    """Host, port and database of a URL: what may be shown of it."""
    parts = urlsplit(url)
    return (
        f"{parts.hostname or parts.path}:{parts.port or 6379}{parts.path if parts.hostname else ''}"
    )


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


def _evaluate(
    client: Client, script: str, names: Sequence[str | bytes], arguments: Sequence[str | int]
) -> int:
    """Run a script by its hash; a server that was restarted is given the text again."""
    source, digest = _script(script)
    try:
        return int(client.evalsha(digest, len(names), *names, *arguments))
    except NoScriptError:
        return int(client.eval(source, len(names), *names, *arguments))


@cache
def _script(name: str) -> tuple[str, str]:
    source = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


def _parts(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
