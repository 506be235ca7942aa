"""Views as they are measured: ``headwater apply``, a process of its own, watched by its log.

Nothing is added to what a user runs. What was applied and when are the lines ``batch_applied``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.capture.consumer import opened
from benchmarks.environment import SETTINGS, Setting, servers_home
from cdc.errors import FatalError
from jobs.spark import jars
from stack import servers
from stack.child_process import Process, tail
from stack.servers import Endpoints

_CAUGHT_UP_S: Final = 600.0
_POLL_S: Final = 0.1
_BEGIN: Final = '[snapshot]\nrate = "none"'


class Declared(NamedTuple):
    """A view of a source, its key ``id``."""

    name: str
    store: str
    sql: str


class AppliedBatch(NamedTuple):
    """What a line ``batch_applied`` says; ``at`` is in seconds since 1970."""

    at: float
    seconds: float
    records: int
    rows: int
    offsets: Mapping[str, Mapping[str, int]]


def open_stores(setting: Setting) -> Endpoints:
    """OpenSearch and Redis run beside PostgreSQL and Kafka; Spark's jars are there."""
    setting.watch("starting the stores", 0)
    jars.jars("spark", lambda done, total: setting.watch("downloading jars", done / total))
    return servers.start(servers_home(setting.home), ["opensearch", "redis"], SETTINGS)


def lake(setting: Setting) -> Path:
    """The folder of all Delta tables."""
    return setting.home / "lake"


def declare(
    setting: Setting,
    source: str,
    stores: Endpoints,
    views: list[Declared],
    state: str = "views",
) -> None:
    """Stores and views at the end of a source's configuration, in place of those that it had, and
    no limit to what is read to build them; everything else by default. ``state`` names the folder
    that keeps what is known of them."""
    lines = [
        _BEGIN,
        f'[apply]\nstate = "{setting.home / state}"',
        f'[stores.delta]\nkind = "delta"\npath = "{lake(setting)}"',
        f'[stores.redis]\nkind = "redis"\nurl = "{stores.redis_url}"',
        f'[stores.opensearch]\nkind = "opensearch"\nurl = "{stores.opensearch_url}"',
    ]
    for view in views:
        lines.append(f'[views.{view.name}]\nstore = "{view.store}"\nkey = ["id"]')
        lines.append(f'sql = "{view.sql}"')
    config = setting.config(source)
    before, _, _ = config.read_text(encoding="utf-8").partition(f"\n{_BEGIN}")
    config.write_text("\n".join([before, *lines, ""]), encoding="utf-8")


@contextmanager
def applying(setting: Setting, source: str, view: str) -> Iterator[Process]:
    """``headwater apply`` of one view, started; stopped at the end."""
    command = ["--config", str(setting.config(source)), "apply", view, "--json"]
    name, log = f"headwater apply of {view}", setting.log(f"apply-{view}")
    process = Process(name, command, log, setting.guardian)
    process.start()
    try:
        yield process
    finally:
        process.ask_to_stop()
        process.stop()


def await_applied(setting: Setting, process: Process, topics: list[str]) -> None:
    """Until a view has applied all that its topics hold now. ``FatalError`` after ten minutes."""
    wanted = {topic: records_in(setting, topic) for topic in topics}
    deadline = time.monotonic() + _CAUGHT_UP_S
    while True:
        batches = applied(process.log)
        reached = batches[-1].offsets if batches else {}
        done = {topic: sum(reached.get(topic, {}).values()) for topic in topics}
        if all(done[topic] >= wanted[topic] for topic in topics):
            return
        process.check()
        if time.monotonic() > deadline:
            raise FatalError(f"{process.name} has not caught up\n{tail(process.log)}")
        setting.watch(
            f"{process.name}: catching up", sum(done.values()) / max(1, sum(wanted.values()))
        )
        time.sleep(_POLL_S)


def records_in(setting: Setting, topic: str) -> int:
    """How many records a topic holds, which nothing was removed from."""
    with opened(setting.bootstrap, topic) as log:
        return log.count()


def applied(log: Path) -> list[AppliedBatch]:
    """The batches that a log tells of, in their order."""
    return [
        AppliedBatch(at_of(line), line["seconds"], line["records"], line["rows"], line["offsets"])
        for line in events(log, "batch_applied")
    ]


def events(log: Path, event: str) -> Iterator[dict[str, Any]]:
    """The lines of one kind of a log in JSON; a line that is still being written is none."""
    for text in log.read_text(encoding="utf-8").splitlines(keepends=True):
        if f'"{event}"' in text and text.endswith("\n") and text.startswith("{"):
            line = json.loads(text)
            if line.get("event") == event:
                yield line


def at_of(line: Mapping[str, Any]) -> float:
    """When a line was written, in seconds since 1970."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()
