"""One run: a workload is captured in one life after another, until all of it is confirmed.

Real are ``Capture`` with its session, step and progress, and all it is made of down to the client
of Kafka, the connection to PostgreSQL and the clock. Threads do not run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from structlog.testing import capture_logs

from cdc.capture.loop import Capture
from cdc.capture.routed_tables import places_of
from cdc.config import Config
from cdc.errors import RetryableError
from cdc.events.marks import Mark
from cdc.topics import message_topic, progress_topic
from tests.simulation.faults import CALM, TROUBLED, Chance, Clock, CrashError
from tests.simulation.kafka import SOURCE, Client, Log
from tests.simulation.stream import IDENTITY, SLOT_LSN, Describer, Source, Stream
from tests.simulation.wal import TABLES, workload

PARTITIONS: Final = 2
MOST_TROUBLED_LIVES: Final = 12
"""After these the faults end, so that every run does."""
MOST_TURNS: Final = 5_000
"""Of the loop in one life: whoever needs more is stuck."""
_LARGEST_BATCH: Final = 3_100
"""``message.max.bytes`` where values are to be larger."""
_ROWS: Final = {
    "add.fields": "op,lsn",
    "delete.tombstone.handling.mode": "rewrite-with-tombstone",
}
_BESIDE: Final = {"tables": ["public.*"], "rows_topic": "{source}.{table}.rows"}
_ROUTES: Final[tuple[list[dict[str, Any]], ...]] = (
    [],
    [_BESIDE],
    [{**_BESIDE, **_ROWS}],
    [{"tables": ["public.t"], "content": "row", **_ROWS}],
)


class Outcome(NamedTuple):
    """What a run left, and what it took."""

    log: Log
    lives: int
    sessions: int


def run(seed: int, *, troubled: bool, limits: Sequence[int] = (_LARGEST_BATCH,)) -> Outcome:
    """The seed's workload, captured in a calm or a troubled world. ``limits`` are those of the
    lives, in turn."""
    config = _config(seed, limits[0])
    rng = random.Random(seed)
    wal = workload(rng, rng.choice((10, 40, 80)), large=config.capture.oversized != "stop")
    log = _initialised(config)
    source = Source(wal, lambda: log.mark().confirmed)
    chance = Chance(seed + 1, TROUBLED if troubled else CALM)
    lives = 0
    while source.confirmed < source.end:
        lives += 1
        if lives > MOST_TROUBLED_LIVES:
            chance.faults = CALM
        client = Client(log, chance)
        with _wired(source, log, client, chance), suppress(CrashError):
            _live(_config(seed, limits[lives % len(limits)]), source, chance)
        client.die()
    return Outcome(log, lives, source.sessions)


def _live(config: Config, source: Source, chance: Chance) -> None:
    """One process, session by session, until it crashes, stops or has nothing left to do."""
    capture = Capture(config, "1")
    turns = 0

    def stop() -> bool:
        nonlocal turns
        turns += 1
        assert turns < MOST_TURNS, f"stuck: {capture.counters} of {source.end}"
        if chance.strikes(chance.faults.crash):
            raise CrashError
        if chance.strikes(chance.faults.lost_session):
            raise RetryableError("the session was lost")
        return chance.strikes(chance.faults.stop) or source.confirmed >= source.end

    while True:
        with suppress(RetryableError):
            capture._session(stop)
            return


def _config(seed: int, limit: int) -> Config:
    """Dead letters with every second seed, transaction metadata with every third; rows beside the
    events in two of four, in place of those of a table in a third one."""
    dead_letters = seed % 2 == 0
    return Config.model_validate(
        {
            "source": {
                "name": SOURCE,
                "dsn": "host=simulated",
                "tables": ["public.*"],
                "routes": _ROUTES[seed % 4],
            },
            "kafka": {
                "bootstrap_servers": "simulated:9092",
                "partitions": PARTITIONS,
                "producer": {"message.max.bytes": limit} if dead_letters else {},
            },
            "capture": {
                "feedback_s": 0.01,
                "progress_ms": 10 + 10 * (seed % 5),
                "heartbeat_s": 0,
                "transaction_metadata": seed % 3 == 0,
                "oversized": "dead_letter" if dead_letters else "stop",
            },
        }
    )


def _initialised(config: Config) -> Log:
    """What ``headwater init`` leaves of an empty source: its topics and the first mark."""
    tables, source = [("public", table) for table in TABLES.values()], config.source
    topics = dict.fromkeys([*source.topics(tables), message_topic(SOURCE)], PARTITIONS)
    log = Log(topics)
    routed = places_of(source, tables)
    mark = Mark(SLOT_LSN, log.end_offsets(list(topics)), *IDENTITY, source.slot_name, routed=routed)
    log.append(progress_topic(SOURCE), 0, mark.encode(0), SOURCE.encode(), 0)
    return log


@contextmanager
def _wired(source: Source, log: Log, client: Client, chance: Chance) -> Iterator[None]:
    """The edges of capture in the simulated world, for one life."""
    clock = Clock()

    def stream(_dsn: str, _slot: str, _publication: str, start_lsn: int, *_rest: object) -> Stream:
        return Stream(source, chance, start_lsn)

    edges = {
        "cdc.capture.loop.Broker": lambda *_: log,
        "cdc.capture.loop.ReplicationStream": stream,
        "cdc.capture.loop.Describer": Describer,
        "cdc.capture.loop.asking": source.asking,
        "cdc.capture.session.select": SimpleNamespace(select=lambda *_: None),
        "cdc.capture.guard.select": SimpleNamespace(select=lambda *_: ([], [], [])),
        "cdc.capture.reconciliation.asking": source.asking,
        "cdc.capture.reconciliation.check_publication": lambda *_: [],
        "cdc.capture.reconciliation.identify": lambda _conn: IDENTITY,
        "cdc.capture.reconciliation.slot_state": lambda _conn, _name: source.slot(),
        "cdc.capture.topic_setup.asking": source.asking,
        "cdc.kafka.client.Producer": lambda _settings: client,
        "cdc.columnar.feed.LEAST_FRAMES": 6,
    }
    for module in ("capture.loop", "capture.session", "capture.mark_writer", "kafka.producer"):
        edges[f"cdc.{module}.monotonic"] = clock.monotonic
    for module in ("capture.session", "capture.mark_writer"):
        edges[f"cdc.{module}.time_ns"] = clock.time_ns
    with pytest.MonkeyPatch.context() as patch, capture_logs():
        for edge, simulated in edges.items():
            patch.setattr(edge, simulated)
        yield
