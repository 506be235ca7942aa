"""The keys of records in topics, and which rows of a view the log touched in a stretch of time.

A row that the source has at L and the view lacks is missing, unless it was deleted at or after L.
What was committed at or after L stands, in Kafka, behind what stood there before L was taken; so
the keys between those ends and the ends after the view was read are all that can have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import orjson

from cdc.errors import LogError
from cdc.kafka.broker import Broker, Offsets
from verification.select_view import SelectView
from verification.values.canonical_form import canonicalizer, packed, row_canonicalizer
from views.spark.resolution import ResolvedView
from views.spark.view import View
from views.table_versions import TableVersion


def touched_keys(
    broker: Broker,
    view: View | SelectView,
    before: Offsets,
    after: Offsets,
    versions: Collection[TableVersion] = (),
) -> set[bytes] | None:
    """The packed view keys of the records from ``before`` to ``after``; None stands for all
    (a TRUNCATE, or a key that does not say which row). ``versions`` are as of ``key_reader``."""
    packed_keys = key_reader(view, versions)
    keys: set[bytes] = set()
    for topic, ends in after.items():
        for partition, end in ends.items():
            start = before.get(topic, {}).get(partition, 0)
            for record in broker.events(topic, partition, start, end):
                if record.key is None:
                    return None
                found = packed_keys(record.key, f"{topic}-{partition}, offset {record.offset}")
                if not found:
                    return None
                keys |= found
    return keys


def key_reader(
    view: View | SelectView, versions: Collection[TableVersion] = ()
) -> Callable[[bytes, str], set[bytes]]:
    """From an event's key, and where it stands, to the packed key of the view's row.

    None when it does not say which row. ``versions`` are those of the table that the event may be
    of, if not of the newest: where key columns took each other's names there are two that it may
    be. Raises ``LogError`` for what is no event's key.
    """
    by_name = {output.name: output for output in view.outputs}
    columns = [by_name[name] for name in view.key]
    canonical = row_canonicalizer([canonicalizer(column.type) for column in columns])
    sources = [column.source or "" for column in columns]
    tables = versions or ([view.table] if isinstance(view, ResolvedView) else [])
    spellings = {tuple(table.sent(name) for name in sources) for table in tables}

    def packed_keys(key: bytes, place: str) -> set[bytes]:
        values = _key(key, place)
        return {
            packed(canonical(values[name] for name in names))
            for names in spellings
            if values.keys() >= set(names)
        }

    return packed_keys


def _key(key: bytes, place: str) -> dict[str | None, Any]:
    try:
        values = orjson.loads(key)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise LogError(
            f"{place}: the record's key is not a JSON object",
            "give the source a unique source.name, so that no other program writes to its topics",
        )
    return values
