"""Views in Redis: one key per row, written by compare-and-set inside the server.

``<view>@<generation>:<name>`` is a row, where the name is its key, or what ``key_template`` makes
of that. It holds the row and its position (``jobs.sinks.redis.layout``). A deleted row keeps its
position alone for ``TOMBSTONE_S``, so that a late older change does not bring it back.
``<view>@live`` names the generation that people read, ``<view>@2``: one SET switches them all.
``__headwater:<view>@<generation>`` holds its columns, key and shape; no view's name starts with an
underscore, so it is never a row.

``index_by`` keeps ``<view>@<generation>#<column>:<value>``, the names of the rows with that value,
and of numbers and times ``<view>@<generation>#<column>``, sorted. They may lie in other hash slots
than the rows, so a row notes in the step that writes it which sets it leaves and which it enters;
then they are written; then the note is settled. A batch that was cut off is applied again, and
what is noted is done again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import orjson
import structlog
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Redis, View
from cdc.errors import SinkError, ViewError
from cdc.log_events import LogEvent
from cdc.lsn import Position
from cdc.tls import certificates
from jobs.sinks.batch_writer import write_documents
from jobs.sinks.contract import Batch, ViewRow
from jobs.sinks.documents import Document, Documents, row_decoder
from jobs.sinks.key_names import Keys, among, are_plain
from jobs.sinks.redis.client import Address, Client, Keyspace
from jobs.sinks.redis.layout import (
    Shape,
    asked,
    check,
    name_of,
    plain_name,
    remembered,
    shape_of,
    stored_of,
)
from jobs.sinks.redis.writer import RedisWriter
from jobs.sinks.rows import Rows, write
from jobs.sinks.schema_evolution import (
    check_key,
    columns_from_json,
    columns_json,
    evolved_documents,
)

SCAN_KEYS = 5_000

_GLOB = re.compile(r"([\\*?\[\]])")

log = structlog.get_logger("apply")


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
    """The generation that people read, None if the view was never filled.

    Raises ``ViewError`` when the key that names it is somebody else's.
    """
    held = client.get(live_key(view))
    if held is None:
        return None
    of, _, number = held.decode(errors="replace").rpartition("@")
    if of != view or not number.isdecimal():
        raise ViewError(
            f"view {view}: the key {live_key(view)} in Redis does not belong to this view",
            "rename the view, or delete that key",
        )
    return int(number)


def address_of(config: Redis, retry_s: float) -> Address:
    """Raises ``ConfigError`` for a file that cannot be read."""
    authorities = certificates(config.ssl_ca_location)
    return Address(config.url, config.cluster, retry_s, authorities)


class RedisSink:
    """A ``Sink`` over one Redis database; ``generation`` None is what people read."""

    def __init__(
        self,
        config: Redis,
        view: str,
        retry_s: float,
        generation: int | None = None,
        declared: View | None = None,
        made_anew: bool = False,
    ) -> None:
        self._view, self._address = view, address_of(config, retry_s)
        self._made_anew = made_anew
        self._keyspace = Keyspace(self._address)
        self._wanted = generation
        self._declared = shape_of(declared)
        self._prefix = ""
        self._shape = Shape()
        self._columns = StructType()
        self._key: tuple[str, ...] = ()
        self._documents: Documents | None = None

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        live = self._keyspace.call(partial(live_generation, view=self._view))
        self._prefix = prefix(self._view, self._wanted or live or 1)
        self._refuse_unnumbered()
        created = self.describe(columns, key)
        if created:
            live_is = live_key(self._view), self._prefix
            self._keyspace.call(lambda client: client.set(*live_is, nx=True))
        return created

    def describe(self, columns: StructType, key: tuple[str, ...]) -> bool:
        """Write down what the generation holds, shown to people or not; true if it was new."""
        self._prefix = self._prefix or prefix(self._view, self._wanted or 1)
        name = description_key(self._prefix)
        held = self._keyspace.call(lambda client: client.hgetall(name))
        stored, self._shape = StructType(), self._declared
        if held:
            check_key(self._view, orjson.loads(held[b"key"]), key)
            stored = columns_from_json(held[b"columns"].decode())
            self._shape = remembered(held.get(b"shape"))
            if self._shape != self._declared:
                log.warning(
                    LogEvent.ROWS_KEPT_AS_THEY_WERE_BUILT, view=self._view, rows=self._prefix
                )
        else:
            check(self._view, self._shape, columns)
        whole = evolved_documents(self._view, stored, columns, key, self._made_anew)
        entry = {
            "key": orjson.dumps(key),
            "columns": columns_json(whole),
            "shape": self._shape.text(),
        }
        self._keyspace.call(lambda client: client.hset(name, mapping=entry))
        self._columns, self._key = columns, key
        self._documents = None
        return not held

    def _refuse_unnumbered(self) -> None:
        names = description_key(self._view), description_key(self._prefix)
        ask = [("EXISTS", name) for name in names]
        unnumbered, numbered = self._keyspace.each(ask)
        if unnumbered and not numbered:
            raise ViewError(
                f"view {self._view}: Redis holds its rows in the format of an older Headwater",
                f"run `headwater view rebuild {self._view}`, or empty the database and its state",
            )

    @property
    def shape(self) -> Shape:
        """How rows lie there: as declared when the generation was made."""
        return self._shape

    @property
    def writer(self) -> RedisWriter:
        return RedisWriter(self._address, self._view, self._prefix, self._shape, self._columns)

    def documents(self) -> Documents:
        """What makes them of rows."""
        if self._documents is None:
            name = name_of(self._shape, self._columns, self._key)
            self._documents = Documents(self._columns, self._key, name)
        return self._documents

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        write_documents(self.documents()(rows), batch.keys, self.writer)
        self._refuse_emptied()

    def write_rows(self, rows: Rows, batch: Batch) -> None:  # noqa: ARG002
        write(self._view, rows, self.writer)
        self._refuse_emptied()

    def _refuse_emptied(self) -> None:
        """Raises ``SinkError`` for a database that was emptied since it was prepared: rows are all
        there is of a place in Redis, so that writing makes it again."""
        name = description_key(self._prefix)
        if not self._keyspace.call(lambda client: client.exists(name)):
            raise SinkError(
                f"view {self._view}: {self._address.place} lost its rows: {name} is gone",
                f"run `headwater view rebuild {self._view}`",
            )

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        for keys in keys_of(self._keyspace, f"{self._prefix}:"):
            names = [key.decode()[len(self._prefix) + 1 :] for key in dict.fromkeys(keys)]
            self.writer([Document(name, None, before, (), name) for name in names])

    def scan(self, keys: Keys | None = None) -> Iterator[ViewRow]:
        if keys is not None and are_plain(self._columns, self._key):
            names = (plain_name(self._shape, self._key, values) for values in keys)
            yield from self._rows([f"{self._prefix}:{name}".encode() for name in names])
            return
        seen: set[bytes] = set()  # SCAN may give a key twice while its table grows or shrinks
        for page in keys_of(self._keyspace, f"{self._prefix}:"):
            fresh = [key for key in dict.fromkeys(page) if key not in seen]
            seen.update(fresh)
            yield from among(self._rows(fresh), keys)

    def _rows(self, names: list[bytes]) -> Iterator[ViewRow]:
        decode = row_decoder(self._columns, self._key)
        read = stored_of(self._shape, self._columns)
        for answer in self._keyspace.each([asked(self._shape, name) for name in names]):
            stored = read(answer)
            if stored is not None and stored.body is not None:
                yield decode(stored.body, stored.position)

    def close(self) -> None:
        self._keyspace.close()


def keys_of(keyspace: Keyspace, beginning: str) -> Iterator[list[bytes]]:
    """Every key that begins so, page by page; one may come twice."""
    return keyspace.pages(_GLOB.sub(r"\\\1", beginning) + "*", SCAN_KEYS)
