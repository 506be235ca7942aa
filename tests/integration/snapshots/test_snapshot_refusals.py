"""Servers on which no snapshot can be made, each told before anything is; and Kafka's full disk."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cdc.config import Config, load_config
from cdc.errors import RetryableError
from cdc.kafka import bulk_producer as bulk
from snapshots import snapshot_on_demand
from stack import servers
from stack.postgres import Postgres
from tests.support.commands.deployment import Deployment, fold

SAFE = {"fsync": "off"}
LARGEST_FILE = 12 << 20
"""Kafka's indexes begin with 10 MiB."""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "server"
    try:
        yield home
    finally:
        servers.purge(home)


def refused(home: Path, settings: dict[str, str], tmp_path: Path, name: str) -> str:
    """What a start says on a server with these settings."""
    dsn = servers.start(home, ["postgres"], {"postgres": {**SAFE, **settings}}).postgres_dsn
    deployment = Deployment(tmp_path, name, dsn, "127.0.0.1:1")  # Kafka is not asked
    done = deployment.run("snapshot", "start", "public.item")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_a_server_that_cannot_make_a_slot_is_refused_with_the_way_out(
    own_server: Path, tmp_path: Path, source_name: str
) -> None:
    said = refused(own_server, {"wal_level": "replica"}, tmp_path, source_name)
    assert "wal_level is replica: no logical slot can be created" in said
    assert "Set wal_level = logical in postgresql.conf" in said
    servers.stop(own_server)

    said = refused(own_server, {"max_wal_senders": "0"}, tmp_path, source_name)
    assert "all 0 WAL senders are taken" in said
    assert "Raise max_wal_senders" in said
    servers.stop(own_server)

    (Postgres().directory(own_server) / "data" / "standby.signal").touch()
    said = refused(own_server, {}, tmp_path, source_name)
    assert "the server is a standby" in said
    assert "Name the primary in source.dsn" in said


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "kafka"
    try:
        yield home
    finally:
        servers.purge(home)


def test_when_kafkas_disk_is_full_it_says_so_and_goes_on_later(
    own_kafka: Path,
    tmp_path: Path,
    source_name: str,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the broker a file that may not grow is what a full disk is: it gives its log up."""
    bootstrap = servers.start(own_kafka, ["kafka"]).kafka_bootstrap
    deployment = Deployment(tmp_path, source_name, database, bootstrap, extra="partitions = 1")
    deployment.execute(
        "create table public.item (id int primary key, note text)",
        "insert into public.item select i, string_agg(md5(random()::text), '')"
        " from generate_series(1, 20000) i, generate_series(1, 40) group by i",
    )
    done = deployment.run("init", "--no-snapshot")
    assert done.returncode == 0, done.stderr
    config = full_speed(deployment)
    snapshot_id = snapshot_on_demand.create(config, ["public.item"])
    (line,) = (line for line in servers.status(own_kafka) if line.name == "kafka")
    assert line.pid is not None
    resource.prlimit(line.pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, resource.RLIM_INFINITY))
    refused = r"Kafka acknowledged nothing for 3 s, and \d+ records"
    with monkeypatch.context() as patched:
        patched.setattr(bulk, "_STALLED_S", 3.0)
        with pytest.raises(RetryableError, match=refused):
            snapshot_on_demand.run(config, snapshot_id)
    with psycopg.connect(database) as conn:
        row = conn.execute(
            "select status from headwater.snapshot where id = %s", [snapshot_id]
        ).fetchone()
    assert row == ("failed",)

    servers.stop(own_kafka)  # it may have ended by itself
    servers.start(own_kafka, ["kafka"])
    found = snapshot_on_demand.run(config, snapshot_id)
    assert found.complete
    (table,) = found.tables
    assert table.topic is not None
    images = fold(deployment.topic(table.topic))
    assert sorted(image["id"] for image in images.values()) == list(range(1, 20001))


def full_speed(deployment: Deployment) -> Config:
    deployment.extra += '\n[snapshot]\nrate = "none"'
    deployment.write()
    return load_config(deployment.config)
