"""The versions of a view's table, from ``<source>.__schemas``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cdc.errors import LogError
from cdc.kafka.broker import Broker, read_compacted
from cdc.topics import schemas_topic
from views.table_versions import TableVersion, parse_version

Versions = dict[str, TableVersion]
"""By ``schema_id``; the newest is the last."""


def read_versions(broker: Broker, source: str, schema: str, table: str) -> Versions:
    """Every version of one table in the order of the positions at which it last had them, those
    that an older Headwater described first.

    Empty when capture has not seen the table yet. Raises ``LogError`` for a record that is not
    one of capture's.
    """
    of_table = [
        record
        for record in _records(broker, source)
        if record.get("schema") == schema and record.get("table") == table
    ]
    of_table.sort(key=lambda record: record.get("lsn", 0))
    return {version.schema_id: version for version in map(parse_version, of_table)}


def tables_described(broker: Broker, source: str) -> set[str]:
    """``schema.table`` of every table that capture has seen."""
    if not broker.partitions([schemas_topic(source)]):
        return set()
    return {f"{one.get('schema')}.{one.get('table')}" for one in _records(broker, source)}


def _records(broker: Broker, source: str) -> Iterator[dict[str, Any]]:
    topic = schemas_topic(source)
    for key, value in read_compacted(broker, topic).items():
        try:
            yield json.loads(value)
        except ValueError:
            raise LogError(f"{topic}: the record of {key!r} is not JSON") from None
