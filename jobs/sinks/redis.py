"""Views in Redis: one key per row, written by compare-and-set inside the server.

``<view>@<generation>:<name>`` is a row, where the name is its key, or what ``key_template`` makes
of that. It holds the row and its position (``jobs.sinks.shapes``). A deleted row keeps its position
alone for ``TOMBSTONE_S``, so that a late older change does not bring it back. ``<view>@live`` names
the generation that people read, ``<view>@2``: one SET switches them all.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import structlog
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Redis, View
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
from jobs.sinks.keyspace import Address, Client, Keyspace, Row, shared
from jobs.sinks.keyspace_faults import HeldByOtherError
from jobs.sinks.refusing import Refused, RowsError, raise_together, refused_rows
from jobs.sinks.schema import check_key, columns_from_json, columns_json, evolved
from jobs.sinks.shapes import (
    Entries,
    Shape,
    asked,
    body_text,
    check,
    entries,
    gone_key,
    name_of,
    remembered,
    shape_of,
    stored_of,
)
from jobs.sinks.writing import with_keys, write_documents

TOMBSTONE_S = 24 * 3600
CALL_ROWS = 500
"""Rows in one script call: the server answers nobody else meanwhile (about 2 ms)."""
SCAN_KEYS = 5_000

_TAKEN = "its key in Redis is held by something else (WRONGTYPE)"
_OWN_DATABASE = "use a database of its own for the view, or rename the view"
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
    """The generation that people read, None if the view was never filled."""
    held = client.get(live_key(view))
    return None if held is None else int(held.rpartition(b"@")[2])


def address_of(config: Redis, retry_s: float) -> Address:
    return Address(config.url, config.cluster, retry_s)


class RedisSink:
    """A ``jobs.sinks.Sink`` over one Redis database; ``generation`` None is what people read."""

    def __init__(
        self,
        config: Redis,
        view: str,
        retry_s: float,
        generation: int | None = None,
        declared: View | None = None,
    ) -> None:
        self._view, self._address = view, address_of(config, retry_s)
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
                log.warning("rows_kept_as_they_were_built", view=self._view, rows=self._prefix)
        else:
            check(self._view, self._shape, columns)
        whole = evolved(self._view, stored, columns)
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
                f"view {self._view}: Redis holds its rows as an older Headwater wrote them",
                f"run `headwater view rebuild {self._view}`, or empty the database and its state",
            )

    @property
    def writer(self) -> RedisWriter:
        return RedisWriter(self._address, self._view, self._prefix, self._shape, self._columns)

    def documents(self) -> Documents:
        """What makes documents of a batch's rows. Its expressions are built once."""
        if self._documents is None:
            name = name_of(self._shape, self._columns, self._key)
            self._documents = document_rows(self._columns, self._key, name)
        return self._documents

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        write_documents(self.documents()(rows), batch.keys, self.writer)

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        for keys in keys_of(self._keyspace, f"{self._prefix}:"):
            names = [key.decode()[len(self._prefix) + 1 :] for key in dict.fromkeys(keys)]
            self.writer([Document(name, None, before, (), name) for name in names])

    def scan(self) -> Iterator[ViewRow]:
        decode = row_decoder(self._columns, self._key)
        read = stored_of(self._shape, self._columns)
        seen: set[bytes] = set()  # SCAN may give a key twice while its table grows or shrinks
        for keys in keys_of(self._keyspace, f"{self._prefix}:"):
            fresh = [key for key in dict.fromkeys(keys) if key not in seen]
            seen.update(fresh)
            for answer in self._keyspace.each([asked(self._shape, key) for key in fresh]):
                stored = read(answer)
                if stored is not None and stored.body is not None:
                    yield decode(stored.body, stored.position)

    def close(self) -> None:
        self._keyspace.close()


@dataclass(frozen=True, slots=True)
class RedisWriter:
    """Writes documents from any process: the connection is made where it is called."""

    address: Address
    view: str
    prefix: str
    shape: Shape
    columns: StructType

    def __call__(self, documents: list[Document]) -> None:
        errors: list[RowsError] = []
        refused: list[Document] = []
        whole = with_keys(self.view, documents, errors)
        if any(document.unchanged for document in whole):
            whole = self._filled(whole, errors, refused)
        sets = [entries(self.shape, self.columns, self.prefix, one.body) for one in whole]
        rows = [self._row(one, held) for one, held in zip(whole, sets, strict=True)]
        common = self.shape.format, TOMBSTONE_S, self.shape.ttl_s
        answers = shared(self.address).evaluate("apply.lua", common, rows, CALL_ROWS)
        unsettled = [
            (document, belongs, orjson.loads(answer))
            for document, belongs, answer in zip(whole, sets, answers, strict=True)
            if answer not in (b"", b"!")
        ]
        if unsettled:
            self._settle(unsettled)
        refused += [d for d, answer in zip(whole, answers, strict=True) if answer == b"!"]
        if refused:
            errors.insert(0, self._taken(refused))
        raise_together(errors)

    def _row(self, document: Document, sets: Entries) -> Row:
        name = self._name(document)
        names = (name, gone_key(name)) if self.shape.format == "json" else (name,)
        body = body_text(self.shape, document.body, document.position)
        noted = orjson.dumps(list(sets)) if self.shape.index_by else ""
        return Row(names, (document.position.hex(), body, noted))

    def _settle(self, rows: Sequence[tuple[Document, Entries, list[str]]]) -> None:
        """Write the sets that rows enter and leave, and then that they are."""
        keyspace = shared(self.address)
        commands: list[tuple[Any, ...]] = []
        settled = []
        for document, belongs, noted in rows:
            for entry, score in belongs.items():
                add = ("SADD", entry[1:]) if score is None else ("ZADD", entry[1:], score)
                commands.append((*add, document.name))
            for entry in set(noted) - belongs.keys():
                remove = "SREM" if entry[0] == "s" else "ZREM"
                commands.append((remove, entry[1:], document.name))
            arguments = document.position.hex(), orjson.dumps(list(belongs))
            settled.append(Row((self._name(document),), arguments))
        keyspace.each(commands)
        keyspace.evaluate("settle.lua", (), settled, CALL_ROWS)

    def _taken(self, documents: Sequence[Document]) -> RowsError:
        rows = [Refused(one.id, one.position, _TAKEN) for one in documents]
        return refused_rows(f"view {self.view}: {self.address.place}", rows, _OWN_DATABASE)

    def _filled(
        self, documents: Sequence[Document], errors: list[RowsError], refused: list[Document]
    ) -> list[Document]:
        lacking = [document for document in documents if document.unchanged]
        whole = [document for document in documents if not document.unchanged]
        known = self._known(lacking, refused)
        if self.shape.ttl_s:  # what has expired is not there to be changed
            known = [(document, held) for document, held in known if held is not None]
        again = [
            document._replace(body=orjson.dumps(held.body).decode(), unchanged=())
            for document, held in known
            if self.shape.index_by and held and held.body and held.position == document.position
        ]  # applied before, perhaps not to its sets
        some, stored = [document for document, _ in known], [held for _, held in known]
        return whole + again + filled(self.view, some, stored, errors)

    def _known(
        self, documents: Sequence[Document], refused: list[Document]
    ) -> list[tuple[Document, Stored | None]]:
        """What is stored of each document; those whose key is something else are ``refused``."""
        try:
            return list(zip(documents, self._held(documents), strict=True))
        except HeldByOtherError:
            if len(documents) == 1:
                refused.extend(documents)
                return []
            half = len(documents) // 2
            first = self._known(documents[:half], refused)
            return first + self._known(documents[half:], refused)

    def _held(self, documents: Sequence[Document]) -> list[Stored | None]:
        keyspace, read = shared(self.address), stored_of(self.shape, self.columns)
        names = [self._name(document) for document in documents]
        answers = keyspace.each([asked(self.shape, name) for name in names])
        held = [read(answer) for answer in answers]
        if self.shape.format != "json":
            return held
        gone = keyspace.each([("GET", gone_key(name)) for name in names])
        return [
            Stored(parse_position(position.decode()), None) if position and one is None else one
            for one, position in zip(held, gone, strict=True)
        ]

    def _name(self, document: Document) -> str:
        return f"{self.prefix}:{document.name}"


def keys_of(keyspace: Keyspace, beginning: str) -> Iterator[list[bytes]]:
    """Every key that begins so, page by page; one may come twice."""
    return keyspace.pages(_GLOB.sub(r"\\\1", beginning) + "*", SCAN_KEYS)
