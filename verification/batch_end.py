"""The rows of a view as they are at the end of a batch of the mirrors, computed by the source."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from cdc.config import Source
from cdc.errors import LogError, SourceError
from cdc.kafka.broker import Broker, Offsets
from cdc.source.catalog import relation
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types
from verification.log_changes import TableChanges, UntellableError
from verification.scope import published_relations
from verification.select_view import SelectView
from verification.source_rows import SourceSnapshot
from verification.values.canonical_form import digest

MOST_RECORDS: Final = 200_000
"""More are not read, and nothing is told then."""


@dataclass(frozen=True, slots=True)
class BatchEnds:
    """Of a view, for snapshots of its source, which ``settings`` are of."""

    broker: Broker
    view: SelectView
    settings: Source

    def digests(
        self, snapshot: SourceSnapshot, before: Offsets, end: Offsets, keys: Collection[bytes]
    ) -> dict[bytes, bytes] | None:
        """Digests of the rows of some packed keys where the mirrors are at ``end``; None where
        nothing was committed since the snapshot: they are as they are there.

        What stands below ``before`` in Kafka was committed before the snapshot, and ``end`` has all
        that was. Raises ``UntellableError``.
        """
        changes = self._changes(snapshot, before, end)
        if not any(one.rows for one in changes.values()):
            return None
        published = published_relations(
            snapshot.conn, snapshot.publication, treated=snapshot.treated, sent=True
        )

        def changed(schema: str, table: str) -> str:
            return changes[schema, table].relation(published(schema, table))

        try:
            with snapshot.conn.transaction():  # what fails herein leaves the snapshot open
                rows = snapshot.computing(self.view.reading(changed)).rows_of(sorted(keys))
                return {row.key: digest(row.values) for row in rows}
        except SourceError as error:
            raise UntellableError from error

    def _changes(
        self, snapshot: SourceSnapshot, before: Offsets, end: Offsets
    ) -> dict[tuple[str, str], TableChanges]:
        conn, left = snapshot.conn, MOST_RECORDS
        topics = [self.settings.own_topic(*name) for name in self.view.tables]
        if self.settings.of_debezium:  # whose events do not tell where they were committed
            row = conn.execute("select pg_catalog.pg_current_snapshot()::text").fetchone()
            assert row is not None, "it is a function"
            self.broker.know(dict.fromkeys(topics, (snapshot.lsn, row[0])))
        types, found = load_types(conn), {}
        for (schema, name), topic in zip(self.view.tables, topics, strict=True):
            oid, kind = table_of(conn, schema, name)
            table = relation(conn, oid, types, snapshot.publication, self.settings.keys)
            tagged = snapshot.treated.tagged(table.name)
            found[schema, name] = changes = TableChanges(table, kind, tagged)
            if topic not in end:
                raise UntellableError
            for partition, at in end[topic].items():
                start = before.get(topic, {}).get(partition, 0)
                left -= max(0, at - start)
                if left < 0:
                    raise UntellableError
                try:
                    changes.add(self.broker.events(topic, partition, start, at), snapshot.lsn)
                except LogError as error:
                    raise UntellableError from error
        return found
