"""Capture, Debezium and ``pg_recvlogical`` over the same WAL.

Every run has a slot of its own, made before the first row was inserted; the WAL is there before
any of them starts. They take turns, so that what disturbs the machine disturbs all.
"""

from __future__ import annotations

from benchmarks import process_usage
from benchmarks.capture.consumer import opened
from benchmarks.capture.process import await_count, capturing, require_exactly, slot_of, topic_of
from benchmarks.capture.shapes import OUR_FORM, RACES, Race, RaceForm
from benchmarks.capture.slots import create_slot, drop_slot
from benchmarks.environment import Setting, create_table, drop_table, init_source, load
from benchmarks.peers.debezium import stream, warm_worker
from benchmarks.peers.recvlogical import receive
from benchmarks.report.medians import RACERS, Run, race_figures, worst
from benchmarks.report.metrics import REPEATS
from cdc.source.postgres import Connection
from stack.debezium import Worker


def measure_races(setting: Setting) -> dict[str, float]:
    """Every race, and in which capture looks worst; medians of ``REPEATS`` runs each."""
    figures: dict[str, float] = {}
    with setting.connect() as conn, warm_worker(setting, conn) as worker:
        for number, race in enumerate(RACES):
            runs = run_race(_part_of(setting, race, number), conn, worker, race, REPEATS)
            figures |= race_figures(race.name, runs)
        figures["debezium_rss_mb"] = process_usage.peak_rss_mb(worker.process.pid)
    return figures | worst(figures)


def _part_of(setting: Setting, race: Race, number: int) -> Setting:
    """The same setting, whose bar goes on where the last race left it."""

    def watch(what: str, part: float) -> None:
        setting.watch(f"{race.name}: {what}", (number + min(part, 1.0)) / len(RACES))

    return setting._replace(watch=watch)


def run_race(
    setting: Setting,
    conn: Connection,
    worker: Worker,
    race: Race,
    repeats: int,
    form: RaceForm = OUR_FORM,
) -> dict[str, list[Run]]:
    """Each racer so many times over the race's rows, in turns. Of events in another form than ours
    ``pg_recvlogical``, which writes none, takes no part."""
    table, rows = f"{race.name}{form.name}", round(setting.rows * race.share)
    create_table(conn, race.shape, table)
    sources = [f"{table}_{i}" for i in range(repeats)]
    for source in sources:
        init_source(setting, source, table, "--no-snapshot", events=form.events)
        if form is OUR_FORM:
            create_slot(conn, _received(source))
        create_slot(conn, _debezium(source))
    end_lsn = load(setting, conn, race.shape, table, rows, race.transaction_rows)
    racers = [one for one in RACERS if form is OUR_FORM or one != "recvlogical"]
    runs: dict[str, list[Run]] = {racer: [] for racer in racers}
    for source in sources:
        publication = slot_of(source)
        if form is OUR_FORM:
            received = receive(setting, _received(source), publication, end_lsn, rows)
            runs["recvlogical"].append(received)
            drop_slot(conn, _received(source))
        name = _debezium(source)
        runs["debezium"].append(
            stream(setting, conn, worker, name, publication, table, rows, form.connector)
        )
        runs["capture"].append(_capture(setting, conn, source, table, rows))
    drop_table(conn, table)
    return runs


def _capture(setting: Setting, conn: Connection, source: str, table: str, rows: int) -> Run:
    """From the answer to START_REPLICATION to the last event in Kafka."""
    topic = topic_of(source, table)
    with opened(setting.bootstrap, topic) as log:
        with capturing(setting, source) as run:
            ended, _ = await_count(
                log, rows, run.process.check, lambda part: setting.watch("capture", part)
            )
            cpu_s, peak_mb = run.cpu_s(), process_usage.peak_rss_mb(run.process.pid)
        require_exactly(log.count(), rows, run.process.name)
    drop_slot(conn, slot_of(source))
    return Run(rows / (ended - run.streaming_at), cpu_s * 1e6 / rows, peak_mb)


def _received(source: str) -> str:
    return f"recv_{source}"


def _debezium(source: str) -> str:
    return f"dbz_{source}"
