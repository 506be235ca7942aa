"""Flink's format ``debezium-json``, in a mini cluster, into tables of PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from tests.acceptance.consumers.conftest import Publish
from tests.support.consumers import workload
from tests.support.consumers.flink import flink_sql
from tests.support.consumers.flink_tables import statements, target_tables


def _kept(database: str, table: str) -> list[tuple[Any, ...]]:
    columns = workload.PLAIN[table].values() if table in workload.SPECIAL else ("*",)
    return workload.kept(database, table, columns)


def test_flinks_debezium_json_keeps_tables_equal_to_the_source(
    publish: Publish, store_database: str, tmp_path: Path
) -> None:
    """With strings for decimals, which the format reads, and the old row in each update, without
    which it stops."""
    published = publish({"decimal.handling.mode": "string"}, full=True)
    with psycopg.connect(store_database, autocommit=True) as connection:
        for statement in target_tables():
            connection.execute(statement.encode())
    flink_sql(tmp_path, statements(published, store_database))
    for name in (*workload.NAMES, "extremes", "articles"):
        found = _kept(store_database, name)
        assert str(found) == str(workload.values(published.source, name)), name
    assert workload.kept(store_database, "visits") == workload.NOT_TRUNCATED
