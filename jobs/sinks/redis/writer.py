"""Rows to Redis from any process: one script a call, and the secondary sets behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pyspark.sql.types import StructType

from jobs.sinks.batch_writer import with_keys
from jobs.sinks.documents import Document, Stored, filled, parse_position
from jobs.sinks.redis.client import Address, Row, parts, shared
from jobs.sinks.redis.errors import HeldByOtherError
from jobs.sinks.redis.layout import Entries, Shape, asked, body_text, entries, gone_key, stored_of
from jobs.sinks.row_errors import Refused, RowsError, raise_together, refused_rows

TOMBSTONE_S = 24 * 3600
CALL_ROWS = 500
"""Rows in one script call: the server answers nobody else meanwhile (about 2 ms)."""
CLUSTER_ROWS = 10_000
"""Rows that a cluster is given together: they make a call for each hash slot."""

_TAKEN = "its key in Redis is held by something else (WRONGTYPE)"
_OWN_DATABASE = "use a separate database for the view, or rename the view"
_REFUSED = b"!"


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
        for part in parts(whole, CLUSTER_ROWS if self.address.cluster else CALL_ROWS):
            if self.shape.index_by:
                answers = self._write_indexed(part)
            else:
                answers = self._evaluate([self._row(document, b"") for document in part])
            if _REFUSED in answers:
                refused += [d for d, said in zip(part, answers, strict=True) if said == _REFUSED]
        if refused:
            errors.insert(0, self._taken(refused))
        raise_together(errors)

    def _write_indexed(self, documents: Sequence[Document]) -> list[bytes]:
        sets = [entries(self.shape, self.columns, self.prefix, one.body) for one in documents]
        rows = [
            self._row(document, orjson.dumps(list(belongs)))
            for document, belongs in zip(documents, sets, strict=True)
        ]
        answers = self._evaluate(rows)
        unsettled = [
            (document, belongs, orjson.loads(answer))
            for document, belongs, answer in zip(documents, sets, answers, strict=True)
            if answer not in (b"", _REFUSED)
        ]
        if unsettled:
            self._settle(unsettled)
        return answers

    def _evaluate(self, rows: Sequence[Row]) -> list[bytes]:
        common = self.shape.format, TOMBSTONE_S, self.shape.ttl_s
        return shared(self.address).evaluate("apply.lua", common, rows, CALL_ROWS)

    def _row(self, document: Document, noted: bytes) -> Row:
        name, position = f"{self.prefix}:{document.name}", document.position.hex()
        if self.shape.format == "document":
            return Row((name,), (position, document.body or "", noted))
        names = (name, gone_key(name)) if self.shape.format == "json" else (name,)
        return Row(names, (position, body_text(self.shape, document.body, position), noted))

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
