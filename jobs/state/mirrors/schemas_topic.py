"""The versions of tables that mirrors follow, from ``<source>.__schemas``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cdc.errors import LogError
from cdc.kafka.broker import Broker, read_compacted
from cdc.topics import schemas_topic


class SentColumn(NamedTuple):
    """A column as ``<source>.__schemas`` describes it; ``element`` is the base of an array's.
    ``source_oid`` and ``source_typmod`` are the type in the source of one that is treated."""

    name: str
    attnum: int | None
    type_oid: int
    type_schema: str
    type_name: str
    typmod: int
    nullable: bool
    element: str | None
    treatment: str = ""
    source_oid: int = 0
    source_typmod: int = -1


class SentVersion(NamedTuple):
    """A version of a table; ``lsn`` is that of the last transaction known to have seen it so.
    Of two that one transaction saw, the later one was described later."""

    schema_id: str
    oid: int
    columns: tuple[SentColumn, ...]
    key: tuple[str, ...]
    lsn: int
    of_catalog: bool = False
    """Read from the source's catalog when its WAL stood at ``lsn``, and not from a description."""

    @property
    def numbered(self) -> bool:
        return all(column.attnum for column in self.columns)


Versions = Mapping[str, Mapping[str, SentVersion]]
"""By ``schema.table``, then by ``schema_id`` in the order of their last description."""


def read_table_versions(broker: Broker, source: str) -> Versions:
    """Every version of every table that capture has described, as mirrors follow them.

    Raises ``LogError`` for a record that is not one of capture's.
    """
    topic = schemas_topic(source)
    found: dict[str, dict[str, SentVersion]] = {}
    for key, value in read_compacted(broker, topic).items():
        try:
            record = json.loads(value)
        except ValueError:
            raise LogError(f"{topic}: the record of {key!r} is not JSON") from None
        version = parse_version(record)
        label = f"{record.get('schema')}.{record.get('table')}"
        found.setdefault(label, {})[version.schema_id] = version
    return found


def parse_version(record: Mapping[str, Any]) -> SentVersion:
    """A value of ``<source>.__schemas``. Raises ``LogError`` when it is not one."""
    try:
        columns = tuple(
            SentColumn(
                one["name"],
                one.get("attnum"),
                one["oid"],
                one["type_schema"],
                one["type"],
                one["typmod"],
                one.get("nullable", True),
                one["element"],
                one.get("treatment", ""),
                one.get("source_oid", 0),
                one.get("source_typmod", -1),
            )
            for one in record["columns"]
        )
        oid, lsn = record.get("table_oid", 0), record.get("lsn", 0)
        return SentVersion(record["schema_id"], oid, columns, tuple(record["key"]), lsn)
    except (KeyError, TypeError) as error:
        raise LogError(
            f"a record of the schemas topic lacks {error}",
            "run `headwater capture` to publish it again",
        ) from None
