"""A program for Pathway: ``io.debezium.read`` of topics, into tables of PostgreSQL.

It runs in an environment of its own, imports nothing of ours, and reads until it is killed. Its
argument is JSON: ``bootstrap``, ``group``, ``postgres`` and, for each topic, its table's name and
columns with their types; those of the key come first, ``key`` says how many they are.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Optional

import pathway as pw

TYPES = {"int": int, "str": str, "float": float, "bool": bool}


def main() -> None:
    given = json.loads(sys.argv[1])
    for topic, table in given["tables"].items():
        _keep(given, topic, **table)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def _keep(given: dict[str, Any], topic: str, name: str, columns: dict[str, str], key: int) -> None:
    definitions = {
        column: pw.column_definition(
            dtype=TYPES[kind] if number < key else Optional[TYPES[kind]],  # noqa: UP045
            primary_key=number < key,
        )
        for number, (column, kind) in enumerate(columns.items())
    }
    kafka = {
        "bootstrap.servers": given["bootstrap"],
        "group.id": f"{given['group']}.{name}",
        "auto.offset.reset": "earliest",
    }
    rows = pw.io.debezium.read(
        kafka,
        topic_name=topic,
        schema=pw.schema_builder(definitions, name=name),
        autocommit_duration_ms=100,
    )
    pw.io.postgres.write(
        rows,
        given["postgres"],
        name,
        output_table_type="snapshot",
        init_mode="create_if_not_exists",
        primary_key=[rows[column] for column in list(columns)[:key]],
    )


if __name__ == "__main__":
    main()
