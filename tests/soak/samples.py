"""What capture and apply take of the machine, what is on disk and in Kafka, and how late views are,
every few seconds until a soak ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import psycopg
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from benchmarks import process_usage
from cdc.errors import RetryableError
from cdc.kafka.broker import Broker
from jobs.state.server.location import home_of, recorded_place
from stack.child_process import Process
from tests.soak.growth import Sample
from tests.support.commands.scraping import scrape

EVERY_S: Final = 10.0
_MB: Final = 1e6
_KEPT: Final = b"""
select coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::float8
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and (n.nspname = 'tombstones'
                           or n.nspname = 'headwater' and c.relname = 'batches')
"""
"""What is kept by design: keys of deleted rows for days, and the newest batches for `trace`."""
_LAG: Final = "headwater_view_lag_seconds"


class Measured(NamedTuple):
    """What is looked at. ``port``: where apply serves its metrics."""

    name: str
    bootstrap: str
    capture: Process
    apply: Process
    port: int
    state: Path
    lake: Path


class Sampler(threading.Thread):
    """Minutes are counted from its start."""

    def __init__(self, of: Measured) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self._of = of
        self._began = time.monotonic()
        self._halt = threading.Event()
        self._error: Exception | None = None
        self._cpu: dict[str, tuple[int, float, float]] = {}

    @property
    def minute(self) -> float:
        return (time.monotonic() - self._began) / 60

    def end(self) -> list[Sample]:
        """Stop, and give all samples. Raises what ended it before."""
        self._halt.set()
        self.join()
        if self._error is not None:
            raise self._error
        return self.samples

    def run(self) -> None:
        """Until ``end``."""
        try:
            with Broker(self._of.bootstrap) as broker:
                while not self._halt.is_set():
                    self.samples.append(Sample(self.minute, dict(self._measure(broker))))
                    self._halt.wait(EVERY_S)
        except Exception as error:
            self._error = error  # ``end`` raises it

    def _measure(self, broker: Broker) -> Iterator[tuple[str, float]]:
        of = self._of
        yield from self._of_processes("capture", of.capture.pid, of.state)
        yield from self._of_processes("apply", of.apply.pid, of.state)
        yield from _on_disk(of)
        with suppress(RetryableError):  # Kafka is away
            yield "topics", len(broker.topics(f"{of.name}."))
        with suppress(OSError, AssertionError):  # apply is away
            found = [value for (name, *_), value in scrape(of.port).items() if name == _LAG]
            if found:
                yield "lag_s", max(found)

    def _of_processes(self, name: str, pid: int, state: Path) -> Iterator[tuple[str, float]]:
        """Of a command and all below it. Nothing while it begins anew."""
        try:
            pids = process_usage.owners(pid, state) if name == "apply" else _tree(pid)
            used = {of: sum(values) for of, values in _usage(pids)}
        except psutil.NoSuchProcess:
            return
        yield from ((f"{name}_{of}", value) for of, value in used.items())
        now, cpu_s = time.monotonic(), process_usage.cpu_of_s(pids)
        before, self._cpu[name] = self._cpu.get(name), (pid, now, cpu_s)
        if before is not None and before[0] == pid and cpu_s >= before[2]:
            yield f"{name}_cores", (cpu_s - before[2]) / (now - before[1])


def _tree(pid: int) -> list[int]:
    top = psutil.Process(pid)
    return [top.pid, *(one.pid for one in top.children(recursive=True))]


def _usage(pids: list[int]) -> Iterator[tuple[str, Iterable[float]]]:
    """Memory also by program, ``java_mb`` and so on; what they share, the buffers of the state
    database, apart from all of it."""
    processes = [psutil.Process(pid) for pid in pids]
    parts = [
        (program(one.name()), process_usage.pss_mb([one.pid]), process_usage.shared_mb([one.pid]))
        for one in processes
    ]
    yield "mb", [resident - shared for _, resident, shared in parts]
    yield "shared_mb", [shared for *_, shared in parts]
    for name in {name for name, *_ in parts}:
        own = [resident - shared for of, resident, shared in parts if of == name]
        yield f"{name}_mb", own
    yield "handles", [one.num_fds() for one in processes]
    yield "threads", [one.num_threads() for one in processes]
    yield "processes", [len(processes)]


def program(name: str) -> str:
    """``python`` for ``python3.11``."""
    return name.rstrip(".0123456789")


def _on_disk(of: Measured) -> Iterator[tuple[str, float]]:
    home = home_of(str(of.state), of.name)
    yield "state_files", sum(1 for _ in _files(of.state, beside=home))
    place = recorded_place(home)
    if place is not None:
        wal = place.data / "pg_wal"
        with suppress(psycopg.Error):  # it is away
            with psycopg.connect(place.dsn, connect_timeout=5) as conn:
                (kept,) = conn.execute(_KEPT).fetchone() or (0.0,)
            yield "state_kept_mb", kept / _MB
            yield "state_database_mb", (_size(_files(place.data, beside=wal)) - kept) / _MB
        yield "state_wal_mb", _size(_files(wal)) / _MB
    tables = [path.parent for path in of.lake.glob("*/_delta_log")]
    with suppress(DeltaError):  # one is being made
        yield "delta_files", sum(len(DeltaTable(path).file_uris()) for path in tables)
    yield "delta_files_kept", sum(1 for _ in _files(of.lake))


def _files(folder: Path, beside: Path | None = None) -> Iterator[Path]:
    """All below a folder that may be changing, but for those below ``beside``."""
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if Path(here) / name != beside]
        yield from (Path(here) / name for name in names)


def _size(files: Iterable[Path]) -> int:
    """In bytes."""
    total = 0
    for file in files:
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
