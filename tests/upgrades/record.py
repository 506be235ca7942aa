"""``python -m tests.upgrades.record COMMIT``: what the version of a commit leaves, to a file.

The commit's own ``headwater`` runs, from a work tree of its own, on new servers: ``init``,
``capture`` and ``apply`` of ``tests.upgrades.deployed``, changes, and SIGTERM. Then all that lasts
is read: the databases as ``pg_dump`` gives them, records and groups of Kafka, keys of Redis, files
of ``apply.state`` and of the lake.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import redis
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaAdminClient

from cdc.kafka.broker import Broker
from cdc.topics import progress_topic
from stack import servers
from stack.guardian import Guardian
from stack.postgres import client_binaries
from stack.servers import Endpoints
from tests.chaos.servers.environment import database
from tests.upgrades.deployed import (
    CHANGES,
    DATABASES,
    SOURCE,
    STATE_DATABASE,
    STORE_DATABASE,
    TABLES,
    VIEW_NAMES,
    stores,
)

FOLDER: Final = Path(__file__).with_name("recorded")
HOME: Final = "@home@"
"""Stands for the folder of the deployment."""
_MAINS: Final = ("headwater/cli/app.py", "cdc/cli/app.py")
"""Where the command line is, newest first."""
_CONFIGS: Final = ("cleanup.policy", "retention.ms", "compression.type", "max.message.bytes")
_OIDS: Final = """
select 'table ' || relname, oid::bigint from pg_class
where relnamespace = 'public'::regnamespace and relkind = 'r'
union all
select 'type ' || typname, oid::bigint from pg_type
where typnamespace = 'public'::regnamespace and typtype = 'e'
union all
select 'label ' || enumlabel, oid::bigint from pg_enum
"""
_READY_S: Final = 300.0


def main(arguments: Sequence[str]) -> None:
    """Write the file of each commit."""
    for commit in arguments:
        with tempfile.TemporaryDirectory(prefix="headwater-record-") as folder:
            home = Path(folder).resolve()
            text = json.dumps(record(commit, home)).replace(str(home), HOME)
        FOLDER.mkdir(exist_ok=True)
        recorded = json.loads(text)
        file = FOLDER / f"{recorded['commit']}.json"
        shown = json.dumps(recorded, indent=1, ensure_ascii=False)
        file.write_text(f"{shown}\n", encoding="utf-8")
        print(file, file.stat().st_size)


def record(commit: str, home: Path) -> dict[str, Any]:
    """Of one commit; everything is below ``home``."""
    home.chmod(0o755)  # PostgreSQL does not run as root
    short, tree = _git("rev-parse", "--short=8", commit).strip(), home / "tree"
    _git("worktree", "add", "--detach", str(tree), commit)
    guardian = Guardian()
    try:
        guardian.purge(home)
        found = servers.start(home / "servers", ["postgres", "kafka", "redis"])
        return {"commit": short, **_recorded(tree, home, found)}
    finally:
        servers.purge(home / "servers")
        guardian.release()
        _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _recorded(tree: Path, home: Path, found: Endpoints) -> dict[str, Any]:
    dsn, reports, state = (
        database(found.postgres_dsn, name) for name in (SOURCE, STORE_DATABASE, STATE_DATABASE)
    )
    with psycopg.connect(found.postgres_dsn, autocommit=True) as conn:
        for name in DATABASES:
            conn.execute(f"create database {name}".encode())
        row = conn.execute("select system_identifier::text from pg_control_system()").fetchone()
    assert row is not None
    _execute(dsn, TABLES)
    config = home / "headwater.toml"
    config.write_text(
        f'[source]\nname = "{SOURCE}"\ndsn = "{dsn}"\ntables = ["public.*"]\n'
        f'[kafka]\nbootstrap_servers = "{found.kafka_bootstrap}"\nreplication_factor = 1\n'
        + stores(found.redis_url, reports, state, str(home / "state"), str(home / "lake")),
        encoding="utf-8",
    )
    old = _Old(tree, config, home)
    old.run("init")
    with old.running("capture"), old.running("apply"):
        old.await_applied()
        for statement in CHANGES:
            _execute(dsn, statement)
        old.await_applied()
    return {
        "system_id": row[0],
        "oids": oids(dsn),
        "topic_ids": _topic_ids(found.kafka_bootstrap),
        "databases": {name: _dump(found, name) for name in DATABASES},
        "topics": dict(_topics(found.kafka_bootstrap)),
        "groups": _groups(found.kafka_bootstrap),
        "redis": dict(_redis(found.redis_url)),
        "files": dict(_files(home)),
    }


class _Old:
    """The command line of a work tree."""

    def __init__(self, tree: Path, config: Path, home: Path) -> None:
        self._tree, self._config, self._home = tree, config, home
        path = next(name for name in _MAINS if (tree / name).exists())
        module = path.removesuffix(".py").replace("/", ".")
        self._command = [sys.executable, "-c", f"from {module} import main; main()"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self._command, "--config", str(self._config), *arguments]
        done = subprocess.run(command, cwd=self._tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    @contextmanager
    def running(self, verb: str) -> Iterator[None]:
        """Until SIGTERM, which has to end it with exit code 0."""
        log = self._home / f"{verb}.log"
        with log.open("ab") as stream:
            command = [*self._command, "--config", str(self._config), verb]
            child = subprocess.Popen(command, cwd=self._tree, stdout=stream, stderr=stream)
        try:
            yield
        except BaseException:
            print(log.read_text(encoding="utf-8")[-4_000:], file=sys.stderr)
            raise
        finally:
            child.terminate()
            code = child.wait(120)
        assert code == 0, log.read_text(encoding="utf-8")[-4_000:]

    def await_applied(self) -> None:
        """Until the views hold what is committed."""
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self.run("wait", *VIEW_NAMES, "--timeout", "20")
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise


def _execute(dsn: str, statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(statements.encode())


def _dump(found: Endpoints, name: str) -> list[str]:
    """Lines of SQL; ``\\restrict`` has a word that is another one each time."""
    command = [str(client_binaries() / "pg_dump"), "--no-owner", "--no-privileges", "--inserts"]
    command.append(database(found.postgres_dsn, name))
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return [line for line in lines if line and not line.startswith(("--", "\\"))]


def oids(dsn: str) -> dict[str, int]:
    """Of what the source has of its own, by kind and name."""
    with psycopg.connect(dsn) as conn:
        return {str(name): int(oid) for name, oid in conn.execute(_OIDS).fetchall()}


def _topic_ids(bootstrap: str) -> dict[str, str]:
    with Broker(bootstrap) as broker:
        return broker.topic_ids(broker.topics(SOURCE))


def _topics(bootstrap: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of the progress topic only the newest record."""
    with Broker(bootstrap) as broker:
        names = broker.topics(SOURCE)
        ends, configs = broker.end_offsets(names), broker.topic_config(names)
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    try:
        for name in names:
            partitions = []
            for partition, end in sorted(ends[name].items()):
                at = max(0, end - 1) if name == progress_topic(SOURCE) else 0
                partitions.append(_records(reader, TopicPartition(name, partition, at), end))
            config = {key: configs[name][key] for key in _CONFIGS if key in configs[name]}
            yield name, {"config": config, "partitions": partitions}
    finally:
        reader.close()


def _records(reader: Consumer, at: TopicPartition, end: int) -> list[list[Any]]:
    """Time, key, value and headers; the offset of each is its place in the list."""
    found: list[list[Any]] = []
    reader.assign([at])
    while at.offset + len(found) < end:
        for one in reader.consume(1000, 1):
            assert one.error() is None, one.error()
            assert one.offset() == at.offset + len(found) or at.offset, "nothing was compacted"
            headers = [[name, _text(value)] for name, value in one.headers() or ()]
            found.append([one.timestamp()[1], _text(one.key()), _text(one.value()), headers])
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _groups(bootstrap: str) -> dict[str, list[list[Any]]]:
    """Committed offsets with what is noted beside them."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        names = [group["group_id"] for group in admin.list_groups()]
        return {
            name: [
                [of.topic, of.partition, at.offset, at.metadata or ""]
                for of, at in admin.list_group_offsets(name).get(name, {}).items()
                if at.offset >= 0
            ]
            for name in sorted(names)
        }
    finally:
        admin.close()


def _redis(url: str) -> Iterator[tuple[str, list[Any]]]:
    client: Any = redis.Redis.from_url(url)
    with client:
        for key in sorted(client.scan_iter("*")):
            expires_ms = max(0, client.pttl(key))
            yield key.decode(), [expires_ms, b64encode(client.dump(key)).decode()]


def _files(home: Path) -> Iterator[tuple[str, list[str]]]:
    """Of ``apply.state`` and the lake; as text, else in base64."""
    for folder in ("state", "lake"):
        for file in sorted((home / folder).rglob("*")):
            if not file.is_file() or file.suffix == ".lock":  # of a process that has ended
                continue
            held = file.read_bytes()
            try:
                yield str(file.relative_to(home)), ["text", held.decode()]
            except UnicodeDecodeError:
                yield str(file.relative_to(home)), ["base64", b64encode(held).decode()]


if __name__ == "__main__":
    main(sys.argv[1:])
