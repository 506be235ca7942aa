"""The servers of ``headwater up`` after kill -9: the same port and data again."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import psycopg
import pytest
import redis
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from stack import servers
from stack.servers import Endpoints
from tests.support.waiting import wait_until


@pytest.fixture(scope="session")
def all_servers(servers: Endpoints) -> Endpoints:
    """The session's servers, under a name that does not hide the module."""
    return servers


def condition(home: Path, name: str) -> str:
    return next(line.condition for line in servers.status(home) if line.name == name)


def crash(home: Path, name: str, before: Endpoints) -> None:
    """kill -9 and start again: what was up is dead in between and at its old address after."""
    servers.kill(home, name)
    assert condition(home, name) == "dead"
    assert servers.start(home, [name]).addresses[name] == before.addresses[name]
    assert condition(home, name) == "running"


def test_postgres_has_its_rows_again_after_kill_9(
    stack_home: Path, all_servers: Endpoints, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("create table kept as select 42 as answer")
    crash(stack_home, "postgres", all_servers)
    with psycopg.connect(database) as connection:
        assert connection.execute("select answer from kept").fetchone() == (42,)
        assert connection.execute("show wal_level").fetchone() == ("logical",)


def test_kafka_has_its_records_again_after_kill_9(
    stack_home: Path, all_servers: Endpoints, source_name: str
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=all_servers.kafka_bootstrap)
    admin.create_topics([NewTopic(source_name, 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=all_servers.kafka_bootstrap)
    producer.send(source_name, b"kept").get(timeout=120)
    producer.close()
    crash(stack_home, "kafka", all_servers)
    consumer = KafkaConsumer(bootstrap_servers=all_servers.kafka_bootstrap)
    consumer.assign([TopicPartition(source_name, 0)])
    consumer.seek_to_beginning()
    try:
        records = wait_until(lambda: consumer.poll(timeout_ms=200), "the record that was acked")
        assert [record.value for part in records.values() for record in part] == [b"kept"]
    finally:
        consumer.close()


def test_opensearch_has_its_documents_again_after_kill_9(
    stack_home: Path, all_servers: Endpoints, source_name: str
) -> None:
    document = f"{all_servers.opensearch_url}/{source_name}/_doc/1"
    request = urllib.request.Request(document, b'{"kept": true}', method="PUT")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    crash(stack_home, "opensearch", all_servers)
    with urllib.request.urlopen(document) as answer:
        assert json.load(answer)["_source"] == {"kept": True}


def test_redis_has_its_keys_again_after_kill_9(
    stack_home: Path, all_servers: Endpoints, source_name: str
) -> None:
    with redis.Redis.from_url(all_servers.redis_url) as client:
        client.set(source_name, "kept")
    crash(stack_home, "redis", all_servers)
    with redis.Redis.from_url(all_servers.redis_url) as client:
        assert client.get(source_name) == b"kept"
