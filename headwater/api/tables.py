"""The captured tables as clients may name them, with their topics and columns."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from cdc.config import Config
from cdc.errors import RetryableError
from cdc.protocol.relation import Relation
from cdc.source.catalog import captured_tables, relation
from cdc.source.columns.treated_columns import treated
from cdc.source.postgres import connect
from cdc.source.types import load_types

_FRESH_S: Final = 10.0
_MISSED_S: Final = 1.0
"""A name that is not known makes the catalog be read again, no more often than that."""


class CapturedTable(NamedTuple):
    """``relation`` has the columns as they are published, treated ones as text; ``rows_topic`` is
    the second topic, if there is one."""

    label: str
    topic: str
    relation: Relation
    rows_topic: str = ""

    @property
    def topics(self) -> list[str]:
        """Both."""
        return [self.topic, self.rows_topic] if self.rows_topic else [self.topic]


class Tables:
    """Blocks: for threads. What was read last serves while the source is away."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._known: Mapping[str, CapturedTable] = {}
        self._read_at: float | None = None

    def all(self) -> Mapping[str, CapturedTable]:
        """By ``schema.table``. Raises ``SourceError`` or ``RetryableError`` where they cannot be
        read, and were not before."""
        return self._read(_FRESH_S)

    def find(self, name: str) -> CapturedTable | None:
        """By ``schema.table``, or the name alone of a table in ``public``."""
        for fresh_s in (_FRESH_S, _MISSED_S):
            known = self._read(fresh_s)
            found = known.get(name) or known.get(f"public.{name}")
            if found is not None:
                return found
        return None

    def _read(self, fresh_s: float) -> Mapping[str, CapturedTable]:
        with self._lock:
            now = time.monotonic()
            if self._read_at is None or now - self._read_at > fresh_s:
                try:
                    self._known = self._catalog()
                except RetryableError:
                    if self._read_at is None:
                        raise
                self._read_at = now
            return self._known

    def _catalog(self) -> Mapping[str, CapturedTable]:
        source = self._config.source
        found = {}
        with connect(source.dsn, application_name="headwater serve") as conn:
            types = load_types(conn)
            for table in captured_tables(conn, source):
                shape = relation(conn, table.oid, types, source.publication_name, source.keys)
                shape = treated(conn, shape, source)
                at = source.place(table.schema, table.name)
                found[table.label] = CapturedTable(table.label, at.topic, shape, at.rows_topic)
        return found
