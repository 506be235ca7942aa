"""One seed: a source, clients that write, faults, and at the end the checks."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from cdc.errors import HeadwaterError
from cdc.events.marks import decode_mark
from cdc.kafka.broker import Broker, last_record
from cdc.lsn import parse_lsn
from cdc.topics import progress_topic, slot_name
from tests.chaos.capturing import Captured, CaptureError
from tests.chaos.check import check_stream
from tests.chaos.faults import Target, apply, plan
from tests.chaos.fold import check_tables, read_tables
from tests.chaos.letters import with_letters
from tests.chaos.log import Log, read_log
from tests.chaos.options import options
from tests.chaos.outbox import emitted
from tests.chaos.sampling import Sampler
from tests.chaos.setting import Setting, connect, database
from tests.chaos.tables import creation
from tests.chaos.truth import Truth
from tests.chaos.workload import Client, Control
from tests.deployment import Deployment

CLIENTS: Final = 4
_SETTLE_S: Final = 180.0
_SHOWN: Final = 20
Watch = Callable[[str], None]
"""Hears what is being done."""


@dataclass(slots=True)
class Outcome:
    """What a seed did and found. ``letters``: records too large for Kafka."""

    seed: int
    folder: Path
    drawn: str = ""
    findings: list[str] = field(default_factory=list)
    transactions: int = 0
    changes: int = 0
    undecided: int = 0
    emitted: int = 0
    letters: int = 0
    samples: int = 0
    restarts: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)


class Seed:
    """A run of one seed on servers that others have used before it."""

    def __init__(self, setting: Setting, seed: int, watch: Watch) -> None:
        self._setting = setting
        self._seed = seed
        self._options = options(seed)
        self._watch = watch
        self.name = f"chaos_{seed}_{time.time_ns() // 1_000_000 % 100_000_000}"
        self.folder = setting.home / self.name
        self.folder.mkdir()
        self._dsn = database(setting.postgres_dsn, self.name)
        self._truth, self._control = Truth(), Control()
        self._clients = [
            Client(self._dsn, seed, i, self._truth, self._control) for i in range(CLIENTS)
        ]
        self._deployment = Deployment(
            self.folder,
            self.name,
            database(setting.proxied_dsn, self.name),
            setting.proxied_bootstrap,
            ("public.*", '"Süd".*'),
            self._options.toml(streaming=False),
        )
        self._target = Target(
            setting,
            self._dsn,
            slot_name(self.name),
            Captured(self._deployment.config, self.folder / "capture.log", setting.guardian),
            self._control,
            threading.Event(),
            Counter(),
        )

    def run(self) -> Outcome:
        """All of it. What goes wrong on the way is a finding as well."""
        began = time.monotonic()
        outcome = Outcome(self._seed, self.folder, str(self._options))
        try:
            self._prepare()
            self._disturb(outcome)
            self._settle()
            outcome.findings += self._check(outcome)
        except (CaptureError, AssertionError, HeadwaterError, psycopg.Error, ValueError) as error:
            outcome.findings.append(f"{type(error).__name__}: {error}")
        finally:
            self._control.stop.set()
            self._target.capture.kill()
        outcome.findings += self._control.failures
        outcome.transactions = len(self._truth.committed)
        outcome.changes = self._truth.changes
        outcome.undecided = self._truth.undecided
        outcome.restarts = self._target.capture.ended
        outcome.seconds = time.monotonic() - began
        self._end(outcome)
        return outcome

    def _prepare(self) -> None:
        self._watch("snapshot")
        with connect(self._setting.postgres_dsn) as conn:
            conn.execute(f'create database "{self.name}"'.encode())
        with connect(self._dsn) as conn:
            for statement in creation():
                conn.execute(statement.encode())
        for client in self._clients:
            client.start()
        self._deployment.init()
        self._deployment.extra = self._options.toml(streaming=True)
        self._deployment.write()

    def _disturb(self, outcome: Outcome) -> None:
        capture = self._target.capture
        sampler = Sampler(self._target, self.name)
        sampler.start()
        capture.start()
        self._control.wild.set()
        capture.await_streaming()
        capture.pause(random.Random(self._seed).uniform(0.3, 1.8))
        for step in plan(self._seed):
            self._watch(step.fault)
            outcome.faults[step.fault] += 1
            apply(step, self._target)
            if step.streams:
                capture.await_streaming()
            capture.pause(step.then_s)
        self._setting.postgres.release()
        self._setting.kafka.release()
        self._sampler = sampler

    def _settle(self) -> None:
        """The clients end, and capture gets as far as they did."""
        self._watch("settling")
        self._control.stop.set()
        for client in self._clients:
            client.join(120)
            assert not client.is_alive(), f"{client.name} does not end"
        with connect(self._dsn) as conn:
            row = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
        target = parse_lsn(str(row[0])) if row else 0
        deadline = time.monotonic() + _SETTLE_S
        capture = self._target.capture
        while self._confirmed() < target:
            capture.pause(0.05)
            if time.monotonic() > deadline:
                raise AssertionError(f"capture does not get to {target} in {_SETTLE_S:.0f} s")
        code = capture.stop()
        assert code == 0, f"SIGTERM to a capture at rest: exit code {code}"

    def _confirmed(self) -> int:
        topic = progress_topic(self.name)
        with Broker(self._setting.bootstrap) as broker:
            record = last_record(broker, topic)
        return decode_mark(record.value, topic).confirmed if record and record.value else 0

    def _check(self, outcome: Outcome) -> list[str]:
        self._watch("checking")
        samples = self._sampler.end()
        log = with_letters(read_log(self._setting.bootstrap, self.name), self.name)
        log.samples = samples
        outcome.samples = len(samples)
        outcome.emitted = sum(1 for _ in emitted(log, self.name))
        outcome.letters = len(log.letters)
        with connect(self._dsn) as conn:
            contents = read_tables(conn)
        snapshot_lsn = log.marks[0]["confirmed"]
        metadata, limit = self._options.metadata, self._options.limit
        findings = check_stream(log, self._truth, self.name, snapshot_lsn, metadata, limit)
        findings += check_tables(log, contents, self.name)
        if findings:
            _keep(log, self._truth, self.folder)
        return findings

    def _end(self, outcome: Outcome) -> None:
        """A good run leaves nothing behind, a bad one all that it knows."""
        if outcome.findings:
            steps = "\n".join(map(str, plan(self._seed)))
            text = "\n".join([*outcome.findings, "", outcome.drawn, steps, ""])
            (self.folder / "findings.txt").write_text(text, encoding="utf-8")
            for server in ("postgres", "kafka"):
                self._setting.restart(server)
        with connect(self._setting.postgres_dsn) as conn:
            _drop(conn, self.name, slot_name(self.name))
        with Broker(self._setting.bootstrap) as broker:
            broker.delete_topics(broker.topics(f"{self.name}."))
        if not outcome.findings:
            shutil.rmtree(self.folder)


def _drop(conn: psycopg.Connection[tuple[Any, ...]], name: str, slot: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        conn.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots"
            " where slot_name = %s and active_pid is not null",
            (slot,),
        )
        try:
            conn.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where slot_name = %s",
                (slot,),
            )
            break
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(0.05)
    conn.execute(f'drop database if exists "{name}" with (force)'.encode())


def _keep(log: Log, truth: Truth, folder: Path) -> None:
    """What was compared, for whoever looks for the cause."""
    with (folder / "events.jsonl").open("w", encoding="utf-8") as file:
        for (topic, partition), records in sorted(log.events.items()):
            for record in records:
                line = [topic, partition, record.offset, record.key, record.value]
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    with (folder / "told.jsonl").open("w", encoding="utf-8") as file:
        for (topic, partition), told in sorted(log.told.items()):
            for one in told:
                headers = {name: (text or b"").decode() for name, text in one.headers}
                start = (one.value or b"")[:300].decode("utf-8", "replace")
                line = [topic, partition, one.offset, str(one.key), headers, start]
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    with (folder / "truth.jsonl").open("w", encoding="utf-8") as file:
        for t in truth.committed:
            line = [t.worker, t.xid, t.began_lsn, t.ended_lsn, t.changes]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    (folder / "marks.json").write_text(json.dumps(log.marks, indent=0), encoding="utf-8")
