"""One seed: writers, capture, and a snapshot that is killed again and again and goes on."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from cdc.lsn import parse_lsn
from tests.snapshots import check
from tests.snapshots.killed_capture import KilledCapture, captured, doubled
from tests.snapshots.workload import PAUSE_S, Writers, make_tables
from tests.support.commands.deployment import Deployment, Event
from tests.support.servers.forked_command import Child
from tests.support.waiting import wait_until

FAULTS: Final = (
    *("snapshot killed", "worker killed", "paused", "capture killed twice"),
    *("server killed", "broker killed"),
)
_TABLES: Final = ("item", "part", "bare")
_JOINING: Final = ("item", "part")
_SETTINGS: Final = "[snapshot]\nchunk_mb = {chunk_mb}\nmax_age_s = {age_s}\n"
_RATES: Final = ("3000 rows/s", "6000 rows/s", "5 MB/s")
_RESUMES: Final = 12


class Servers(NamedTuple):
    """What a seed runs on. ``kill`` and ``restart`` take a server's name; None: never."""

    home: Path
    dsn: str
    bootstrap: str
    kill: Callable[[str], None] | None = None
    restart: Callable[[str], None] | None = None


@dataclass(slots=True)
class Outcome:
    """What a seed found; ``resumed`` counts the runs after the first."""

    seed: int
    initial: bool
    joins: bool = False
    findings: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    rows: int = 0
    points: int = 0
    resumed: int = 0


class Seed:
    """Odd seeds kill ``headwater init``, even ones ``headwater snapshot``, but for every third of
    those, in which tables join: ``headwater table add`` is killed, and capture with it.
    ``joins``: in any seed they do. ``pause_s``: of a writer, between two transactions."""

    def __init__(
        self, servers: Servers, seed: int, joins: bool = False, pause_s: float = PAUSE_S
    ) -> None:
        self._rng = random.Random(f"snapshots {seed}")
        self._servers, self._pause_s = servers, pause_s
        self.outcome = Outcome(seed, seed % 2 == 1 and not joins, joins or seed % 6 == 4)
        self._capture: KilledCapture | None = None
        self._workers = self._rng.choice((1, 1, 2))
        settings = _SETTINGS.format(
            chunk_mb=self._rng.choice((0.02, 0.1, 0.5)), age_s=self._rng.choice((0.3, 2, 1800))
        )
        home = servers.home / f"seed{seed}"
        home.mkdir(parents=True)
        self._shop = Deployment(
            home, home.name + servers.home.name[:8], servers.dsn, servers.bootstrap,
            extra=f"{settings}workers = {self._workers}\n",
        )  # fmt: skip

    def run(self) -> Outcome:
        """Run it; whatever is wrong is among the findings."""
        shop, outcome = self._shop, self.outcome
        make_tables(shop.dsn)
        writers = Writers(shop.dsn, outcome.seed, self._pause_s)
        writers.start()
        try:
            if outcome.initial:
                self._to_the_end("init")
                with shop.running("capture") as capture:
                    self._compare_initial(capture, writers)
            elif outcome.joins:
                self._join(writers)
            else:
                shop.init()
                with shop.running("capture") as capture:
                    self._on_demand(capture, writers)
        finally:
            writers.stop()
        outcome.transactions = writers.transactions
        return outcome

    def _on_demand(self, capture: Child, writers: Writers) -> None:
        found = self._to_the_end("snapshot")
        writers.stop()
        self._shop.captured(capture)
        topics = {table["table"]: table["topic"] for table in found["tables"]}
        points = [parse_lsn(point) for point in found["points"]]
        self.outcome.points, self.outcome.rows = len(points), found["rows"]
        for table in _TABLES:
            rows, stream = self._shop.topic(topics[f"public.{table}"]), self._shop.events(table)
            if table == "bare":
                self._judge(table, check.differing_bag(rows, stream))
            else:
                self._judge(table, self._against_history(rows, stream, points))
                held, lost = check.loaded(rows, stream, points)
                self._judge(table, lost)
                self._judge(table, self._differences(table, held))

    def _join(self, writers: Writers) -> None:
        """Two tables join; one without a key, whose rows of two LSNs nobody tells apart, does
        not."""
        shop = self._shop
        shop.tables = ("public.bare",)
        shop.init()
        shop.tables = ("public.*",)
        with captured(shop) as self._capture:
            self._to_the_end("table")
            self._compare_kept(self._capture.process, writers, "table")
        for table in _JOINING:
            self._judge(table, doubled(shop.events(table)))

    @staticmethod
    def _against_history(rows: list[Event], stream: list[Event], points: list[int]) -> list[str]:
        truth = check.history(stream)
        return [
            *check.differing_rows(rows, truth),
            *check.missing_rows(rows, truth, points[-1]),
        ]

    def _compare_initial(self, capture: Child, writers: Writers) -> None:
        self._compare_kept(capture, writers, "init")
        events = self._shop.events("bare")
        void = check.truncated(events)
        held_bag = check.bag(e for e in check.changes(events) if e.position > void)
        if sorted(held_bag.elements()) != sorted(self._bag()):
            self._judge("bare", ["rows without a key differ from the source's"])

    def _compare_kept(self, capture: Child, writers: Writers, verb: str) -> None:
        """The tables whose rows came to their own topics, with the source."""
        writers.stop()
        self._shop.captured(capture)
        points = [parse_lsn(point) for point in self._standing(verb)["points"]]
        self.outcome.points = len(points)
        for table in _JOINING:
            events = self._shop.events(table)
            rows = [e for e in events if e.value and e.value["op"] in "rt"]
            self.outcome.rows += len(rows)
            held, lost = check.loaded(rows, events, points)
            self._judge(table, lost)
            self._judge(table, self._differences(table, held))

    def _to_the_end(self, verb: str) -> dict[str, Any]:
        """Run the command until it is done, with a fault each time but the last."""
        faults = self._faults()
        tables = [f"public.{table}" for table in _TABLES]
        # Capture needs seconds to go on, twice, while tables join.
        rates = ("400 rows/s", "800 rows/s") if self.outcome.joins else _RATES
        rate = ["--rate", self._rng.choice(rates)]
        arguments = {
            "init": ["init"],
            "snapshot": ["snapshot", "start", *tables, *rate],
            "table": ["table", "add", *tables[: len(_JOINING)], *rate],
        }[verb]
        for _ in range(_RESUMES):
            with self._shop.running(*arguments) as process:
                struck = bool(faults) and self._underway(process)
                if struck:
                    self._do(faults.pop(), process)
                code = process.wait(240)
            found = self._standing(verb)
            if found.get("status") == "complete":
                # On a quick machine it may be struck between its last step and its end.
                assert struck or code == 0, self._shop.log(verb)
                return found
            self.outcome.resumed += 1
            if verb == "snapshot" and found:
                arguments = ["snapshot", "resume", str(found["id"])]
        raise AssertionError(f"not done after {_RESUMES} runs:\n{self._shop.log(verb)}")

    def _faults(self) -> list[str]:
        possible = ["snapshot killed", "snapshot killed"]
        possible += ["worker killed"] if self._workers > 1 else []
        possible += [] if self.outcome.initial or self.outcome.joins else ["paused"]
        faults = self._rng.choices(possible, k=self._rng.choice((1, 2, 3)))
        if self._servers.kill and self.outcome.seed % 4 < 2:
            faults.append("server killed")
        if self._servers.kill and self.outcome.seed % 6 < 2:
            faults.append("broker killed")
        if self.outcome.joins:
            faults += ["capture killed twice"] * self._rng.choice((1, 2))
        self._rng.shuffle(faults)
        return faults

    def _underway(self, process: Child) -> bool:
        """Wait until some chunks more are done; False when it ends before."""
        goal = self._done() + self._rng.choice((0, 1, 3, 10, 25))

        def reached() -> bool:
            return process.poll() is not None or self._done() > goal

        wait_until(reached, f"more than {goal} chunks to be done")
        return process.poll() is None

    def _do(self, fault: str, process: Child) -> None:
        self.outcome.faults[fault] += 1
        if fault == "snapshot killed":
            process.kill()
        elif fault == "worker killed":
            with suppress(ProcessLookupError, FileNotFoundError, IndexError):
                os.kill(self._rng.choice(workers_of(process.pid)), signal.SIGKILL)
        elif fault == "capture killed twice":
            assert self._capture is not None, "it runs while tables join"
            self._capture.killed_twice(self._rng)
            process.kill()  # so that the last run is the one without a fault
        elif fault == "paused":
            self._shop.run("snapshot", "pause", str(self._standing("snapshot")["id"]))
        else:
            name = "postgres" if fault == "server killed" else "kafka"
            assert self._servers.kill is not None
            assert self._servers.restart is not None
            self._servers.kill(name)
            self._servers.restart(name)

    def _standing(self, verb: str) -> dict[str, Any]:
        kind = "initial" if verb == "init" else "on_demand"
        done = self._shop.run("snapshot", "list", "--json")
        assert done.returncode == 0, done.stderr
        found = [one for one in json.loads(done.stdout) if one["kind"] == kind]
        return found[-1] if found else {}

    def _done(self) -> int:
        query = "select count(*) from headwater.snapshot_chunk where lsn is not null"
        with suppress(psycopg.Error), psycopg.connect(self._shop.dsn, autocommit=True) as conn:
            row = conn.execute(query.encode()).fetchone()
            return int(row[0]) if row else 0
        return 0

    def _differences(self, table: str, held: Mapping[str, Any]) -> list[str]:
        """The table that a view would hold, and the source's."""
        with psycopg.connect(self._shop.dsn, autocommit=True) as conn:
            rows = conn.execute(f"select to_json(t) from public.{table} t".encode()).fetchall()
        source = Counter(json.dumps(row, sort_keys=True) for (row,) in rows)
        view = Counter(json.dumps(row, sort_keys=True, default=str) for row in held.values())
        if source == view:
            return []
        return [
            f"{(source - view).total()} rows missing or old, {(view - source).total()} too many"
        ]

    def _bag(self) -> list[str]:
        with psycopg.connect(self._shop.dsn, autocommit=True) as conn:
            rows = conn.execute("select v, note from public.bare").fetchall()
            return [json.dumps({"v": v, "note": note}) for v, note in rows]

    def _judge(self, table: str, findings: list[str]) -> None:
        self.outcome.findings += [f"{table}: {finding}" for finding in findings[:5]]


def workers_of(pid: int) -> list[int]:
    """Worker processes of a command; its resource tracker is one of its children too."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
