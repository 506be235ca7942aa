"""A Headwater deployment as a user has it: a ``headwater.toml`` and the command line."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import get_ident
from typing import IO, Any, TypeVar

import psycopg

from cdc.errors import RetryableError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.kafka.marks import newest_mark
from cdc.lsn import parse_lsn
from cdc.topics import progress_topic, table_topic
from tests.support.servers import forked_command
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import BORROWING, Lender
from tests.support.waiting import wait_until

_STOP_S = 60.0
"""A command that does not stop by then is killed: the promise has a test of its own."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """A record of a table's topic, its JSON parsed; ``value`` is None for a tombstone."""

    partition: int
    offset: int
    timestamp_ms: int
    key: dict[str, Any] | None
    value: dict[str, Any] | None

    @property
    def position(self) -> tuple[int, int]:
        assert self.value is not None
        return self.value["source"]["commit_lsn"], self.value["source"]["ordinal"]


@dataclass(slots=True)
class Deployment:
    """One source; ``home`` holds its configuration and the logs of its processes."""

    home: Path
    name: str
    dsn: str
    bootstrap: str
    tables: tuple[str, ...] = ("public.*",)
    extra: str = ""
    settings: str = ""
    """Further lines of [source]."""
    environment: dict[str, str] = field(default_factory=dict)
    jvm: Lender | None = None
    """Where commands have Spark; None: each starts one of its own."""

    @property
    def config(self) -> Path:
        return self.home / "headwater.toml"

    def write(self) -> None:
        """The configuration file, from the fields: whole at any moment, for a command that was
        just started may be reading it."""
        tables = json.dumps(list(self.tables))
        fresh = self.config.with_suffix(f".{get_ident()}")
        fresh.write_text(
            f'[source]\nname = "{self.name}"\ndsn = "{self.dsn}"\ntables = {tables}\n'
            f"{self.settings}"
            f'[kafka]\nbootstrap_servers = "{self.bootstrap}"\nreplication_factor = 1\n'
            f"{self.extra}\n",
            encoding="utf-8",
        )
        fresh.replace(self.config)

    def run(self, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            process = self.start(arguments, out, err)
            try:
                code = process.wait(timeout_s)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def start(self, arguments: Sequence[str], out: IO[str], err: IO[str], **more: str) -> Child:
        """A command whose end is awaited by the caller. ``more``: variables of its environment."""
        self.write()
        environ = {**os.environ, **self.environment, **more}
        command = ["--config", str(self.config)]
        if self.jvm is None or not BORROWING & {*arguments}:
            return forked_command.start([*command, *arguments], out, err, environ)
        loan = self.jvm.lend()
        back = partial(self.jvm.taken_back, loan)
        environ |= loan.environ()
        return forked_command.start([*command, *arguments], out, err, environ, back)

    def init(self) -> None:
        """``headwater init``, which must succeed."""
        done = self.run("init")
        assert done.returncode == 0, done.stderr

    def check(self) -> tuple[int, dict[str, list[dict[str, str]]]]:
        """`headwater check`: its exit code, and the findings by level."""
        done = self.run("check", "--json")
        assert "Traceback" not in done.stderr, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        found: dict[str, list[dict[str, str]]] = {"ok": [], "warning": [], "error": []}
        for finding in document["findings"]:
            found[finding["level"]].append(finding)
        assert document["errors"] == len(found["error"])
        return done.returncode, found

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Child]:
        """A command in the background; stopped, by force if need be, at the end."""
        with (self.home / f"{arguments[0]}.log").open("a", encoding="utf-8") as stream:
            process = self.start(arguments, stream, stream)
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            process.kill()

    def log(self, verb: str) -> str:
        """What a background command has said."""
        return (self.home / f"{verb}.log").read_text(encoding="utf-8")

    def execute(self, *statements: str) -> None:
        """Statements on the source, each its own transaction."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def wal_end(self) -> int:
        """The LSN below which everything committed so far stands."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def slot(self, column: str) -> Any:
        """What ``pg_replication_slots`` says of the slot, or ``pg_stat_replication`` of the process
        that serves it; None where there is none."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            row = conn.execute(
                f"select {column} from pg_replication_slots s left join pg_stat_replication r"
                " on r.pid = s.active_pid where slot_name = %s".encode(),
                [f"headwater_{self.name}"],
            ).fetchone()
        return row[0] if row else None

    def captured(self, process: Child | None = None, timeout_s: float = 180) -> None:
        """Wait until all that is committed by now is in Kafka and confirmed."""
        target, topic = self.wal_end(), progress_topic(self.name)
        read_to = -1

        def reached(broker: Broker) -> bool:
            nonlocal read_to
            end = broker.end_offsets([topic])[topic][0]
            if end == read_to:
                return False  # no new mark
            confirmed, read_to = _newest_mark(broker, self.name).confirmed, end
            return confirmed >= target

        def captured() -> bool:
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"capture has ended:\n{self.log('capture')}")
            return answer(self.bootstrap, reached)

        wait_until(captured, f"progress of {self.name} to reach {target}", timeout_s)

    def newest_mark(self) -> Mark:
        """What Kafka's newest progress mark says."""
        return answer_in_the_end(self.bootstrap, lambda broker: _newest_mark(broker, self.name))

    def records(self, table: str) -> int:
        """How many records the topic of a table in ``public`` holds; 0 where there is no topic."""
        topic = table_topic(self.name, "public", table)

        def count(broker: Broker) -> int:
            if not broker.partitions([topic]):
                return 0
            return sum(broker.end_offsets([topic])[topic].values())

        return answer_in_the_end(self.bootstrap, count)

    def events(self, table: str, schema: str = "public") -> list[Event]:
        """Everything in a table's topic, partition by partition."""
        return self.topic(table_topic(self.name, schema, table))

    def topic(self, topic: str) -> list[Event]:
        """Everything in a topic, partition by partition."""
        return answer_in_the_end(self.bootstrap, lambda broker: list(_everything(broker, topic)))


def _everything(broker: Broker, topic: str) -> Iterator[Event]:
    for partition, end in sorted(broker.end_offsets([topic])[topic].items()):
        for record in broker.read(topic, partition, 0, end):
            yield Event(
                record.partition,
                record.offset,
                record.timestamp_ms,
                json.loads(record.key) if record.key else None,
                json.loads(record.value) if record.value else None,
            )


def _newest_mark(broker: Broker, source: str) -> Mark:
    stored = newest_mark(broker, source)
    assert stored is not None, f"{source} has no progress mark"
    return stored.mark


_BROKERS: dict[str, Broker] = {}
"""Connections of the whole run, by address: to open one takes longer than what is asked."""


@atexit.register
def _disconnect() -> None:
    for broker in _BROKERS.values():
        broker.close()


def answer(bootstrap: str, ask: Callable[[Broker], T]) -> T:
    """What Kafka answers. ``AssertionError`` where it does not: it may just be coming back."""
    broker = _BROKERS.setdefault(bootstrap, Broker(bootstrap))
    try:
        return ask(broker)
    except RetryableError as error:
        _BROKERS.pop(bootstrap).close()
        raise AssertionError(str(error)) from error


def answer_in_the_end(bootstrap: str, ask: Callable[[Broker], T]) -> T:
    """A broker that was frozen or killed needs a while to lead again: no promise of ours."""
    return wait_until(lambda: (answer(bootstrap, ask),), "Kafka to answer")[0]


def done(deployment: Deployment, *arguments: str) -> str:
    """A command that must succeed; what it prints."""
    run = deployment.run(*arguments, timeout_s=900)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def listed(deployment: Deployment) -> dict[str, Any]:
    (found,) = json.loads(done(deployment, "view", "list", "--json"))
    assert isinstance(found, dict)
    return found


def fold(events: list[Event]) -> dict[str, dict[str, Any]]:
    """The table that a topic describes: the last image of each key, by its key's JSON."""
    rows: dict[str, tuple[tuple[int, int], dict[str, Any] | None]] = {}
    for event in events:
        if event.value is None:
            continue
        if event.value["op"] == "t":
            rows = {k: v for k, v in rows.items() if v[0] > event.position}
            continue
        key = json.dumps(event.key, sort_keys=True)
        if key not in rows or event.position > rows[key][0]:
            rows[key] = event.position, event.value["after"]
    return {key: row for key, (_, row) in rows.items() if row is not None}


def assert_exactly_once_in_order(events: list[Event]) -> None:
    """No streamed event twice, positions rising in each partition, a tombstone for each delete."""
    last: dict[int, tuple[int, int]] = {}
    previous: dict[int, Event] = {}
    for event in events:
        before = previous.get(event.partition)
        if event.value is None:
            assert before is not None, f"a tombstone first in partition {event.partition}"
            assert before.value is not None, f"two tombstones at {event.offset}"
            assert before.value["op"] == "d", f"tombstone without a delete at {event.offset}"
            assert before.key == event.key, f"tombstone of another key at {event.offset}"
        else:
            if before is not None and before.value and before.value["op"] == "d" and before.key:
                raise AssertionError(f"delete without tombstone at {before.offset}")
            if event.value["op"] != "r":
                where = f"partition {event.partition} goes back at offset {event.offset}"
                assert event.position > last.get(event.partition, (0, 0)), where
                last[event.partition] = event.position
        previous[event.partition] = event
