"""Sinks of Kafka Connect: Debezium's own for databases, and the transform that others use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import psycopg
import pytest

from stack.debezium import Worker
from tests.acceptance.consumers.conftest import Publish
from tests.support.consumers import workload
from tests.support.consumers.connect import connect, jdbc_sink, table_of
from tests.support.consumers.published import Published
from tests.support.waiting import wait_until

SINKS: Final = {
    "": {},
    "unwrapped_": {
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.delete.tombstone.handling.mode": "tombstone",
        "collection.name.format": "unwrapped_${topic}",
    },
}
"""The settings of each sink, by what its tables' names begin with."""


MISTAKEN: Final = {
    "extremes": [(1, 0.0, 0.0), (2, 0.0, 0.0)],
    "articles": workload.PLACEHOLDER,
    "visits": workload.NOT_TRUNCATED,
}
"""What the sink keeps of these: JsonConverter reads a float that is text as 0."""


@pytest.fixture(scope="module")
def worker(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with connect(kafka, tmp_path_factory.mktemp("connect")) as running:
        yield running


def test_debeziums_jdbc_sink_keeps_tables_equal_to_the_source_by_events_and_by_unwrapped_rows(
    worker: Worker, publish: Publish, store_database: str
) -> None:
    published = publish({})
    make_tables(published, store_database)
    with ExitStack() as stack:
        for prefix, settings in SINKS.items():
            config = jdbc_sink(store_database, published.topics, settings)
            stack.enter_context(worker.configured(f"{prefix}{published.prefix}", config))
        for prefix in SINKS:

            def equal(prefix: str = prefix) -> bool:
                worker.check(f"{prefix}{published.prefix}")
                for name in workload.NAMES:
                    table = prefix + table_of(published.topic(name))
                    found = workload.rows(store_database, table)
                    assert found == workload.rows(published.source, name), table
                return True

            wait_until(equal, f"the sink's tables to equal the source, see {worker.log}")

            def special(prefix: str = prefix) -> bool:
                kept = {
                    name: workload.kept(
                        store_database,
                        prefix + table_of(published.topic(name)),
                        workload.PLAIN[name].values(),
                    )
                    for name in workload.SPECIAL
                }
                assert kept == MISTAKEN, prefix
                return True

            wait_until(special, f"the sink's tables of mistaken values, see {worker.log}", 20)


def make_tables(published: Published, database: str) -> None:
    """As those of the source, by the names that the sinks have for them."""
    names = (*workload.NAMES, *workload.SPECIAL)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(workload.TABLES.encode())
        for name in names:
            kept = table_of(published.topic(name))
            copy = f"create table unwrapped_{kept} (like {name} including all)"
            connection.execute(f"{copy}; alter table {name} rename to {kept}".encode())
