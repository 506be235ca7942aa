"""Pathway's ``io.debezium.read``, into tables of PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from stack.guardian import Guardian
from tests.acceptance.consumers.conftest import Publish
from tests.support.consumers import workload
from tests.support.consumers.pathway_process import COLUMNS, pathway
from tests.support.waiting import wait_until

# Pathway keeps the events' own forms of what it has no type for.
FORMS = {
    "body": "body",
    "total": "total::text",
    "n": "n::text",
    "d": "d - date '1970-01-01'",
    "tz": "to_char(tz at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
}


def _columns(table: str) -> list[str]:
    names = [column.split(" ")[0] for column in COLUMNS[table][1].split(", ")]
    return [FORMS.get(name, workload.PLAIN[table][name]) for name in names]


def test_pathways_debezium_connector_keeps_tables_equal_to_the_source(
    publish: Publish, store_database: str, tmp_path: Path, guardian: Guardian
) -> None:
    """With strings for decimals, and the old row in each delete, without which it keeps the row."""
    published = publish({"decimal.handling.mode": "string"}, full=True)
    with pathway(published, store_database, tmp_path, guardian) as check:
        for name in (*workload.NAMES, "articles"):
            expected = workload.kept(published.source, name, _columns(name))

            def equal(name: str = name, expected: list[tuple[object, ...]] = expected) -> bool:
                check()
                assert workload.kept(store_database, name) == expected, name
                return True

            wait_until(equal, f"Pathway to keep {name}")
        wait_until(
            lambda: workload.kept(store_database, "visits") == workload.NOT_TRUNCATED,
            "Pathway to keep all visits",
        )
