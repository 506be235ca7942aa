"""Single rows of the source, as a snapshot's events, at the LSN they are verified at."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Final, NamedTuple

from cdc.columnar.snapshot import SnapshotEncoder
from cdc.config import Source
from cdc.events.envelope import SourceContext
from cdc.events.records import schema_record
from cdc.source.catalog import relation, select_rows
from cdc.source.columns.treated_columns import treated
from cdc.source.copy_out import copy_out
from cdc.source.postgres import identifier, literal
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types
from verification.source_rows import SourceSnapshot, key_rows, sql_texts
from verification.topic_keys import key_reader
from views.spark.generation_names import begun, seen
from views.spark.resolution import ResolvedView
from views.table_versions import TableVersion, parse_version

_KEYS_TOGETHER: Final = 5_000
_BLOCK_ROWS: Final = 2_000
_BLOCK_BYTES: Final = 4 << 20


class KeyedEvent(NamedTuple):
    """A row's event: the packed key of the view, and key and value of its record."""

    key: bytes
    record: tuple[bytes, bytes]


class SourceEvents:
    """The rows of a view's table, as ``source`` sees it."""

    def __init__(self, source: SourceSnapshot, view: ResolvedView, settings: Source) -> None:
        self._source, self._conn = source, source.conn
        definition = view.definition
        oid, kind = table_of(self._conn, definition.schema, definition.table)
        publication = settings.publication_name
        types = load_types(self._conn)
        shape = relation(self._conn, oid, types, publication, settings.keys)
        shape = treated(self._conn, shape, settings)
        now_us = time.time_ns() // 1000
        described = schema_record(shape, source.lsn)["value"]
        assert described is not None
        # Of columns that came since the view knows nothing.
        now, naming = parse_version(json.loads(described)), begun(view.table)
        self.version: TableVersion = seen(now, naming)
        context = SourceContext(version("headwater"), settings.name, self._conn.info.dbname)
        self._encoder = SnapshotEncoder(shape, context, source.lsn, now_us)
        self._rows = select_rows(self._conn, shape, kind, publication)
        self._key = [
            self.version.sent(source) or ""
            for name in view.key
            for source in [next(o.source or "" for o in view.outputs if o.name == name)]
        ]
        self._read_key = key_reader(view, [self.version])
        self._doing = f"reading rows of {definition.table_name}"

    def of(self, keys: Collection[bytes]) -> Iterator[list[KeyedEvent]]:
        """The events of these packed keys' rows, in parts; keys without a row are left out."""
        direct = [key for key in keys if self._source.can_be_asked_for(key)]
        left = iter(direct)
        while part := list(islice(left, _KEYS_TOGETHER)):
            yield from self._read(f"SELECT * FROM ({self._rows}) r {self._where(part)}", part)
        if others := set(keys).difference(direct):
            yield from self._read(self._rows, others)

    def _where(self, keys: Sequence[bytes]) -> str:
        names = ", ".join(f"r.{identifier(name)}" for name in self._key)
        arrays = [
            f"ARRAY[{', '.join(map(literal, column))}]::text[]::{kind}[]"
            for column, kind in zip(sql_texts(keys), self._source.key_types, strict=True)
        ]
        return f"WHERE ({names}) IN ({key_rows(arrays)})"

    def _read(self, query: str, wanted: Collection[bytes]) -> Iterator[list[KeyedEvent]]:
        """Those of ``wanted`` that a query of rows gives."""
        wanted = set(wanted)
        copy = f"COPY ({query}) TO STDOUT"
        for copied, rows in copy_out(self._conn, copy, self._doing, _BLOCK_ROWS, _BLOCK_BYTES):
            record_keys, values = self._encoder.encode(copied, rows)
            found = []
            for record_key, value in zip(record_keys, values, strict=True):
                assert record_key is not None, "a view's table has a key"
                for key in wanted & self._read_key(record_key, self._doing):
                    found.append(KeyedEvent(key, (record_key, value)))
            if found:
                yield found
