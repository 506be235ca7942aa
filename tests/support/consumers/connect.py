"""A Kafka Connect worker with Debezium's sink for databases and its transforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from stack.debezium import Worker, worker
from stack.jvm import FAST_START
from tests.support.consumers.consumer_jars import consumer_jars

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_HEAP: Final = ("-Xms64m", "-Xmx512m", *FAST_START.split())


@contextmanager
def connect(bootstrap: str, directory: Path) -> Iterator[Worker]:
    """The worker, when it answers; ``configured`` runs a connector on it."""
    with worker(bootstrap, directory, _HEAP, consumer_jars("connect")) as running:
        yield running


def jdbc_sink(
    target: str, topics: Sequence[str], settings: Mapping[str, str]
) -> dict[str, str | None]:
    """Debezium's sink into the tables that ``target`` has of these ``topics`` (``table_of``)."""
    place = conninfo_to_dict(target)
    at = f"{place['host']}:{place['port']}/{place['dbname']}"
    converters = {
        f"{part}.converter{setting}": value
        for part in ("key", "value")
        for setting, value in (("", _JSON), (".schemas.enable", "true"))
    }
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": ",".join(topics),
        # Strings become what their column is, such as an address or an enum.
        "connection.url": f"jdbc:postgresql://{at}?stringtype=unspecified",
        "connection.username": str(place["user"]),
        "connection.password": "unused",
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        **converters,
        **settings,
    }


def table_of(topic: str) -> str:
    """What the sink calls a topic's table, unless it is told another name."""
    return topic.replace(".", "_")
