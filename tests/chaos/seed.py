"""One seed: a source, clients that write, faults, and at the end the checks."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import psycopg

from cdc.errors import HeadwaterError
from cdc.kafka.broker import Broker
from cdc.kafka.marks import newest_mark
from cdc.lsn import parse_lsn
from cdc.topics import slot_name
from tests.chaos.checks.dead_letters import with_letters
from tests.chaos.checks.emitted_events import emitted
from tests.chaos.checks.fold import check_tables, read_tables
from tests.chaos.checks.log import read_log
from tests.chaos.checks.samples import Sampler
from tests.chaos.checks.stream import check_stream
from tests.chaos.faults.capture import Target
from tests.chaos.faults.plan import apply, plan
from tests.chaos.faults.stores import ALONE_KILLED
from tests.chaos.faults.table_add import Joining
from tests.chaos.options import options
from tests.chaos.outcome import Outcome, keep
from tests.chaos.servers.environment import JVM, Setting, connect, database, drop_database
from tests.chaos.servers.service import Ready, Service, ServiceError
from tests.chaos.views.whole_path import LONGEST_PAUSE_S, STARTING_PAUSE_S, WholePath
from tests.chaos.workload.clients import Client, Control
from tests.chaos.workload.tables import GROWING, creation
from tests.chaos.workload.truth import NEVER, Truth
from tests.support.commands.deployment import Deployment

CLIENTS: Final = 4
_SETTLE_S: Final = 180.0
_SHOWN: Final = 20
Watch = Callable[[str], None]
"""Hears what is being done."""


class Seed:
    """A run of one seed on servers that others have used before it."""

    def __init__(
        self,
        setting: Setting,
        seed: int,
        watch: Watch,
        stores: bool | None = None,
        faults: int | None = None,
        engine: str | None = None,
    ) -> None:
        """``stores``: with views or without, kept by ``engine``; None as the seed says. ``faults``:
        the first so many of its plan; None for all."""
        self._setting = setting
        self._seed = seed
        self._options = options(seed, stores, engine)
        self._whole_plan = plan(seed, self._options.whole, self._options.engine)
        self._plan = self._whole_plan[:faults]
        self._watch = watch
        self.name = f"chaos_{seed}_{time.time_ns() // 1_000_000 % 100_000_000}"
        self.folder = setting.home / self.name
        self.folder.mkdir()
        self._dsn = database(setting.postgres_dsn, self.name)
        self._truth = Truth()
        self._control = Control(GROWING, LONGEST_PAUSE_S) if self._options.whole else Control()
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
            environment=dict(JVM),
            jvm=None if self._needs_own_jvm() else setting.jvm,
        )
        guardian = setting.guardian
        ready = Ready(lambda said: b"streaming" in said)
        capture = Service("capture", self._deployment, guardian, ready)
        self._whole: WholePath | None = None
        if self._options.whole:
            assert setting.stores is not None, "settings were made without"
            kept, pause = setting.stores, capture.pause
            self._whole = WholePath(
                kept, self._deployment, self._dsn, seed, guardian, pause, self._options
            )
            capture.beside.append(self._whole.apply)
        self._target = Target(
            setting,
            self._dsn,
            slot_name(self.name),
            capture,
            self._control,
            threading.Event(),
            Counter(),
            Joining(self._deployment, self._dsn, self._truth, guardian, seed),
            self._whole,
        )

    def run(self) -> Outcome:
        """All of it. What goes wrong on the way is a finding as well."""
        began = time.monotonic()
        drawn = self._options
        outcome = Outcome(self._seed, self.folder, str(drawn), self._replay(), whole=drawn.whole)
        try:
            self._prepare()
            self._disturb(outcome)
            lsn = self._settle()
            outcome.findings += self._compare(outcome, lsn)
            code = self._target.capture.stop()
            assert code == 0, f"SIGTERM to a capture at rest: exit code {code}"
            outcome.findings += self._check(outcome)
        except (ServiceError, AssertionError, HeadwaterError, psycopg.Error, ValueError) as error:
            outcome.findings.append(f"{type(error).__name__}: {error}")
        finally:
            self._control.stop.set()
            self._target.joining.stop()
            self._target.capture.kill()
            if self._whole is not None:
                self._whole.apply.kill()
        outcome.findings += self._control.failures
        outcome.transactions = len(self._truth.committed)
        outcome.changes = self._truth.changes
        outcome.undecided = self._truth.undecided
        outcome.restarts = self._target.capture.ended
        outcome.seconds = time.monotonic() - began
        self._end(outcome)
        return outcome

    def _needs_own_jvm(self) -> bool:
        return self._options.own_jvm or ALONE_KILLED in {step.fault for step in self._plan}

    def _replay(self) -> str:
        how = f"--stores --engine {self._options.engine}" if self._whole else "--no-stores"
        fewer = len(self._plan) < len(self._whole_plan)
        return f"--seed {self._seed} {how}" + (f" --faults {len(self._plan)}" if fewer else "")

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
        if self._whole is not None:
            self._whole.prepare()
        self._deployment.write()

    def _disturb(self, outcome: Outcome) -> None:
        capture = self._target.capture
        sampler = Sampler(self._target, self.name)
        sampler.start()
        services = [capture, *capture.beside]
        for service in services:
            service.start()
        self._control.wild.set()
        self._await(services)
        capture.pause(random.Random(self._seed).uniform(0.3, 1.8))
        for step in self._plan:
            self._watch(step.fault)
            outcome.faults[step.fault] += 1
            apply(step, self._target)
            self._joined()
            if step.streams:
                self._await(services)
            self._pause(step.then_s)
        self._setting.postgres.release()
        self._setting.kafka.release()
        self._target.joining.end(capture.pause)
        outcome.faults["table add killed"] += self._target.joining.kills
        self._joined()
        self._sampler = sampler

    def _pause(self, longest_s: float) -> None:
        """Before the next fault; with views no longer than until something was applied."""
        applied = self._whole.applied if self._whole is not None else None
        before, deadline = applied() if applied else 0, time.monotonic() + longest_s
        while time.monotonic() < deadline and (applied is None or applied() == before):
            self._target.capture.pause(0.1)

    def _joined(self) -> None:
        """A view of the table that joins is declared as soon as its changes are published."""
        if self._whole is not None and self._truth.joined_lsn < NEVER:
            self._whole.take_in_joined()

    def _await(self, services: Sequence[Service]) -> None:
        """Until they are at work; the clients rest while Spark starts."""
        control, usual_s = self._control, self._control.longest_pause_s
        if self._whole is not None:
            control.longest_pause_s = STARTING_PAUSE_S
        for service in services:
            service.await_ready()
        control.longest_pause_s = usual_s

    def _settle(self) -> int:
        """The clients end, and capture gets as far as they did: to the LSN that is given."""
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
        self._samples = self._sampler.end()
        return target

    def _compare(self, outcome: Outcome, lsn: int) -> list[str]:
        """Each view with its source, where there are views."""
        if self._whole is None:
            return []
        self._watch("comparing views")
        try:
            return self._whole.check(lsn)
        finally:
            outcome.views, outcome.rows = len(self._whole.views), self._whole.rows
            outcome.batches = self._whole.batches

    def _confirmed(self) -> int:
        with Broker(self._setting.bootstrap) as broker:
            stored = newest_mark(broker, self.name)
        return stored.mark.confirmed if stored else 0

    def _check(self, outcome: Outcome) -> list[str]:
        self._watch("checking")
        log = with_letters(read_log(self._setting.bootstrap, self.name), self.name)
        log.samples = self._samples
        outcome.samples = len(self._samples)
        outcome.emitted = sum(1 for _ in emitted(log, self.name))
        outcome.letters = len(log.letters)
        with connect(self._dsn) as conn:
            contents = read_tables(conn)
        snapshot_lsn = log.marks[0]["confirmed"]
        metadata, limit = self._options.metadata, self._options.limit
        findings = check_stream(log, self._truth, self.name, snapshot_lsn, metadata, limit)
        findings += check_tables(log, contents, self.name)
        if findings:
            keep(log, self._truth, self.folder)
        return findings

    def _end(self, outcome: Outcome) -> None:
        """A good run leaves nothing behind, a bad one all that it knows."""
        if outcome.findings:
            steps = "\n".join(map(str, self._plan))
            text = "\n".join([*outcome.findings, "", outcome.drawn, steps, ""])
            (self.folder / "findings.txt").write_text(text, encoding="utf-8")
            for server in ("postgres", "kafka"):
                self._setting.restart(server)
        with connect(self._setting.postgres_dsn) as conn:
            drop_database(conn, self.name)
        with Broker(self._setting.bootstrap) as broker:
            broker.delete_topics(broker.topics(f"{self.name}."))
        if self._whole is not None:
            self._whole.clear()
        if not outcome.findings:
            shutil.rmtree(self.folder)
