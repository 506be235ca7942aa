"""The tables of a source as their events have them, described by the source's catalog."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from cdc.config import Config
from cdc.debezium.lost_columns import lost_columns
from cdc.errors import LogError
from cdc.events.readers.columns import ColumnKind
from cdc.events.readers.debezium import TableShape
from cdc.events.records import Record
from cdc.kafka.broker import Broker, read_compacted
from cdc.kafka.bulk_producer import BulkProducer
from cdc.kafka.topology import topic_specs
from cdc.source.catalog import captured_tables, relation
from cdc.source.columns.treated_columns import treated
from cdc.source.position import current_lsn
from cdc.source.postgres import Connection
from cdc.source.types import load_types
from cdc.topics import progress_topic, schemas_topic, table_topic


def make_topics(config: Config, broker: Broker) -> None:
    """The two that capture would have made."""
    own = (schemas_topic(config.source.name), progress_topic(config.source.name))
    broker.create_topics([one for one in topic_specs(config, ()) if one.name in own])


def describe(config: Config, conn: Connection, broker: Broker, producer: BulkProducer) -> None:
    """Publish the versions that tables have now, where they are not the newest that are known."""
    source = config.source
    newest = {label: shapes[-1] for label, shapes in _described(broker, source.name).items()}
    lsn, types, records = current_lsn(conn), load_types(conn), list[Record]()
    for table in captured_tables(conn, source):
        found = relation(conn, table.oid, types, source.publication_name, source.keys)
        shape = treated(conn, found, source)
        record = shape.describe()
        kinds = {one["name"]: column_kind(one) for one in record["columns"]}
        record |= {"lost": lost_columns(config, conn, record, kinds), "lsn": lsn}
        if newest.get(shape.name, {}) | {"lsn": lsn} != record:
            value = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
            records.append({"key": shape.schema_id().encode(), "value": value, "partition": 0})
    if records:
        producer.send_records(schemas_topic(source.name), records)
        producer.flush()


def lost_now(config: Config, conn: Connection, oid: int) -> dict[str, str]:
    """The columns of a table whose values events do not have exactly, each with the reason."""
    source = config.source
    found = relation(conn, oid, load_types(conn), source.publication_name, source.keys)
    record = treated(conn, found, source).describe()
    kinds = {one["name"]: column_kind(one) for one in record["columns"]}
    return lost_columns(config, conn, record, kinds)


def read_shapes(broker: Broker, source: str) -> dict[str, list[TableShape]]:
    """What is described, by topic. Raises ``LogError`` for a record that is no description."""
    found = {}
    for records in _described(broker, source).values():
        topic = table_topic(source, records[0]["schema"], records[0]["table"])
        found[topic] = [_shape(record) for record in records]
    return found


def column_kind(column: dict[str, Any]) -> ColumnKind:
    """A column of a record of ``<source>.__schemas``."""
    return ColumnKind(
        column["base"],
        column["kind"],
        column["typmod"],
        column["element"],
        column.get("treatment", ""),
        column.get("nullable", True),
        column.get("element_typmod", -1),
    )


def _described(broker: Broker, source: str) -> dict[str, list[dict[str, Any]]]:
    """By ``schema.table``, in the order of their LSNs."""
    topic, found = schemas_topic(source), defaultdict[str, list[dict[str, Any]]](list)
    for key, value in read_compacted(broker, topic).items():
        try:
            record = json.loads(value)
            found[f"{record['schema']}.{record['table']}"].append(record)
            record["columns"], record["lsn"], record["lost"]
        except (ValueError, KeyError, TypeError):
            raise LogError(f"{topic}: the record of {key!r} describes no table version") from None
    for records in found.values():
        records.sort(key=lambda one: one["lsn"])
    return found


def _shape(record: dict[str, Any]) -> TableShape:
    columns = {one["name"]: column_kind(one) for one in record["columns"]}
    return TableShape(record["schema_id"], columns, record["key"], record["lsn"], record["lost"])
