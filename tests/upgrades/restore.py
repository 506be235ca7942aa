"""A recorded state on other servers: as if the earlier version had run there, and had stopped.

What a server alone can give is replaced in all that was recorded: the system identifier, Kafka's
ids of topics, oids, the folder, and the LSN of the newest progress mark, which is where the new
replication slot begins. All other LSNs are lower ones, as they would be.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from cdc.kafka.broker import Broker
from cdc.kafka.broker.topics import TopicSpec
from cdc.lsn import parse_lsn
from cdc.topics import progress_topic, schemas_topic, slot_name
from tests.chaos.servers.environment import connect, database, drop_database
from tests.support.commands.deployment import Deployment
from tests.support.waiting import wait_until
from tests.upgrades.deployed import (
    DATABASES,
    SOURCE,
    STATE_DATABASE,
    STORE_DATABASE,
    stores,
)
from tests.upgrades.record import HOME, oids

Recorded = Mapping[str, Any]
_SECONDS: Final = 60.0
_FORWARD: Final = b"select pg_create_restore_point('headwater'), pg_switch_wal()::text"
"""A switch alone does nothing where nothing was written since the last one."""


@contextmanager
def restored(file: Path, home: Path, postgres: str, kafka: str, redis_url: str) -> Iterator[Any]:
    """The deployment of a recorded file; its databases and topics are gone at the end."""
    recorded = json.loads(file.read_text(encoding="utf-8"))
    ids = _make_topics(kafka, recorded["topics"])
    recorded = _with(recorded, ids, home, _system_id(postgres))
    dsns = {name: database(postgres, name) for name in DATABASES}
    try:
        with connect(postgres) as conn:
            for name in DATABASES:
                conn.execute(f"create database {name}".encode())
        _execute(dsns[SOURCE], recorded["databases"][SOURCE])
        recorded = _with_oids(recorded, oids(dsns[SOURCE]))
        for name in (STATE_DATABASE, STORE_DATABASE):
            _execute(dsns[name], recorded["databases"][name])
        _fill_topics(kafka, recorded["topics"], _slot_lsn(dsns[SOURCE], recorded["topics"]))
        _commit(kafka, recorded["groups"])
        _fill_redis(redis_url, recorded["redis"])
        _write_files(home, recorded["files"])
        places = redis_url, dsns[STORE_DATABASE], dsns[STATE_DATABASE]
        extra = stores(*places, str(home / "state"), str(home / "lake"))
        yield Deployment(home, SOURCE, dsns[SOURCE], kafka, extra=extra)
    finally:
        with connect(postgres) as conn:
            for name in DATABASES:
                drop_database(conn, name)
        with Broker(kafka) as broker:
            broker.delete_topics(broker.topics(SOURCE))


def _make_topics(kafka: str, topics: Mapping[str, Any]) -> dict[str, str]:
    """Kafka's ids of them."""
    with Broker(kafka) as broker:
        broker.create_topics(
            [
                TopicSpec(name, len(topic["partitions"]), 1, topic["config"])
                for name, topic in topics.items()
            ]
        )
        return broker.topic_ids(list(topics))


def _with(recorded: Recorded, ids: Mapping[str, str], home: Path, system_id: str) -> Recorded:
    text = json.dumps(recorded, ensure_ascii=False)
    replaced = {recorded["system_id"]: system_id, HOME: str(home)}
    replaced |= {old: ids[name] for name, old in recorded["topic_ids"].items()}
    for old, new in replaced.items():
        text = text.replace(old, new)
    answer: Recorded = json.loads(text)
    return answer


def _system_id(postgres: str) -> str:
    with connect(postgres) as conn:
        row = conn.execute("select system_identifier::text from pg_control_system()").fetchone()
    assert row is not None
    return str(row[0])


def _with_oids(recorded: Recorded, new: Mapping[str, int]) -> Recorded:
    """Tables and types of the source have other oids now: in the state database, in descriptions
    of tables, and in files of views."""
    replaced = {str(old): str(new[name]) for name, old in recorded["oids"].items()}
    pattern = re.compile(rf"\b({'|'.join(replaced)})\b")

    def renumbered(part: Any) -> Any:
        text = json.dumps(part, ensure_ascii=False)
        return json.loads(pattern.sub(lambda match: replaced[match[1]], text))

    schemas = schemas_topic(SOURCE)
    databases, topics, files = recorded["databases"], recorded["topics"], recorded["files"]
    of_views = {name: file for name, file in files.items() if name.startswith("state/")}
    return {
        **recorded,
        "databases": {**databases, STATE_DATABASE: renumbered(databases[STATE_DATABASE])},
        "topics": {**topics, schemas: renumbered(topics[schemas])},
        "files": files | renumbered(of_views),
    }


def _execute(dsn: str, lines: Sequence[str]) -> None:
    with connect(dsn) as conn:
        conn.execute("\n".join(lines).encode())


def _slot_lsn(source: str, topics: Mapping[str, Any]) -> int:
    """Where a new slot begins: above all that was recorded."""
    ((_, _, mark, _),) = topics[progress_topic(SOURCE)]["partitions"][0]
    with connect(source) as conn:

        def above() -> bool:
            row = conn.execute(_FORWARD).fetchone()
            assert row is not None
            return parse_lsn(str(row[1])) > int(json.loads(mark)["lsn"])

        wait_until(above, "WAL to be above what was recorded")
        row = conn.execute(
            "select lsn::text from pg_create_logical_replication_slot(%s, 'pgoutput')",
            (slot_name(SOURCE),),
        ).fetchone()
    assert row is not None
    return parse_lsn(str(row[0]))


def _fill_topics(kafka: str, topics: Mapping[str, Any], lsn: int) -> None:
    """Each record at the offset that it had, but for the progress mark, which is the first now."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for name, topic in topics.items():
        for partition, records in enumerate(topic["partitions"]):
            for timestamp, key, value, headers in records:
                if name == progress_topic(SOURCE):
                    value = json.dumps(json.loads(value) | {"lsn": lsn - 1, "confirmed": lsn})
                producer.produce(
                    name,
                    None if value is None else value.encode(),
                    None if key is None else key.encode(),
                    partition,
                    timestamp=timestamp,
                    headers=[(header, (text or "").encode()) for header, text in headers],
                )
    assert producer.flush(_SECONDS) == 0


def _commit(kafka: str, groups: Mapping[str, Any]) -> None:
    for group, committed in groups.items():
        member = Consumer({"bootstrap.servers": kafka, "group.id": group})
        offsets = [
            TopicPartition(topic, partition, offset, metadata)
            for topic, partition, offset, metadata in committed
        ]
        for done in member.commit(offsets=offsets, asynchronous=False) if offsets else ():
            assert done.error is None, done.error
        member.close()


def _fill_redis(url: str, keys: Mapping[str, Any]) -> None:
    client: Any = redis.Redis.from_url(url)
    with client:
        for key, (expires_ms, dump) in keys.items():
            client.restore(key, expires_ms, b64decode(dump), replace=True)


def _write_files(home: Path, files: Mapping[str, Any]) -> None:
    for name, (kind, held) in files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(held.encode() if kind == "text" else b64decode(held))
