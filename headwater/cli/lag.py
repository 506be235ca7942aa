"""``headwater lag``: how far capture and each view are behind the source."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cdc.errors import HeadwaterError, UsageError
from cdc.lsn import format_lsn
from headwater.cli.common.context import configured
from headwater.cli.common.format import size
from headwater.cli.common.output import out, print_json

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from cdc.config import Config
    from cdc.kafka.broker import Broker, Offsets
    from cdc.lag import Lag, PartitionLag
    from verification.view_facts import ViewFacts

Document = dict[str, Any]
Parked = Mapping[tuple[str, str, int], int]
"""Keys that wait, by view, topic and partition: of rows of the view its own name and -1."""
Faults = Mapping[str, Mapping[str, str]]
"""Views that a fault has ended, or that nobody applies: ``kind``, when it ended, if that is known,
``fault`` and the way out."""
_EVERY_S = 1.0


def register(app: typer.Typer) -> None:
    app.command(name="lag")(lag)


def lag(
    ctx: typer.Context,
    views: Annotated[
        list[str] | None, typer.Argument(metavar="[VIEW]...", help="Views to show. Default: all.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far capture and the views are behind: records, bytes of WAL and seconds.

    Exit codes: 0 however large the lag is (use `headwater health --views --max-lag S` to test it),
    1 if a view has stopped or no process applies it.

    \b
    Example:
      headwater lag --watch
    """
    from cdc.kafka.broker import Broker
    from cdc.lag import measure
    from cdc.source.postgres import connect
    from jobs.state.server.reader import reading_state
    from verification.view_facts import is_kept_by_state, view_facts

    if watch and as_json:
        raise UsageError("--watch and --json cannot be combined", "leave one out")
    config = configured(ctx)
    with ExitStack() as stack:
        if not watch and config.apply.engine == "database":
            with suppress(HeadwaterError):  # then nobody knows of parked keys
                stack.enter_context(reading_state(config))
        broker = stack.enter_context(Broker(config.kafka.bootstrap_servers, config.kafka))
        facts = view_facts(config, broker)
        topics = {view: facts.topics(view) for view in views or config.views}
        conn = stack.enter_context(connect(config.source.dsn))
        of_state = [view for view in topics if is_kept_by_state(config, view)]
        letters = ParkedKeys(config, broker, [view for view in topics if view not in of_state])

        def now() -> Lag:
            source = config.source
            return measure(conn, broker, source.name, source.slot_name, topics, time.time())

        def parked() -> Parked:
            return {**letters.now(), **_parked_rows(facts, of_state)}

        def faults() -> Faults:
            return faults_of(config, facts, topics)

        if watch:
            _watch(lambda: table(now(), parked(), faults()))
        found, waiting, failed = now(), parked(), faults()
        if as_json:
            print_json(document(found, waiting, failed))
        else:
            out().print(table(found, waiting, failed))
        if failed:
            raise typer.Exit(1)


def faults_of(config: Config, facts: ViewFacts, views: Iterable[str]) -> Faults:
    """Why views do not follow the source now, by their names."""
    from headwater.cli.view.display import stopped_by
    from verification.view_faults import STOPPED, view_faults

    found: dict[str, Mapping[str, str]] = {}
    for one in view_faults(facts, views):
        noted = (stopped_by(config, one.view) or {}) if one.kind == STOPPED else {}
        found[one.view] = {"kind": one.kind, "fault": one.message, "hint": one.hint, **noted}
    return found


def _parked_rows(facts: ViewFacts, views: Iterable[str]) -> Parked:
    """In the state database rows of views are parked: they are of no partition."""
    return {(view, view, -1): found for view in views if (found := facts.parked(view))}


def _watch(draw: Any) -> NoReturn:
    from rich.live import Live

    with Live(draw(), console=out(), auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(_EVERY_S)
            live.update(draw(), refresh=True)


class ParkedKeys:
    """How many keys wait as dead letters, by view and the partition they are of. A topic of them
    is read again when something was written to it. Rows of the view itself are of none."""

    def __init__(self, config: Config, broker: Broker, views: Sequence[str]) -> None:
        self._config, self._broker, self._views = config, broker, views
        self._ends: Offsets = {}
        self._found: Parked = {}

    def now(self) -> Parked:
        from cdc.topics import view_dead_letters_topic
        from jobs.without_mirrors.dead_letters.topic import waiting

        topics = {view_dead_letters_topic(view): view for view in self._views}
        ends = self._broker.end_offsets(list(self._broker.partitions(list(topics))))
        if ends != self._ends:
            found: dict[tuple[str, str, int], int] = {}
            for topic in ends:
                letters = waiting(self._config, self._broker, topics[topic])
                firsts = [*(of[0] for of in letters.keys.values()), *letters.keyless]
                for letter in [*firsts, *letters.rows.values()]:
                    place = topics[topic], letter.topic, letter.partition
                    found[place] = found.get(place, 0) + 1
            self._ends, self._found = ends, found
        return self._found


def waiting_keys(views: Sequence[PartitionLag], parked: Parked) -> list[int]:
    """How many keys, for each partition; rows of a view itself count with its first."""
    counts, seen = [], set[str]()
    for item in views:
        own = 0 if item.view in seen else parked.get((item.view, item.view, -1), 0)
        seen.add(item.view)
        counts.append(own + parked.get((item.view, item.topic, item.partition), 0))
    return counts


def document(
    lag: Lag, parked: Parked = MappingProxyType({}), faults: Faults = MappingProxyType({})
) -> Document:
    """The same as JSON: LSNs as PostgreSQL writes them, sizes in bytes."""
    progress = None if lag.progress_lsn is None else format_lsn(lag.progress_lsn)
    return {
        "wal_lsn": format_lsn(lag.wal_lsn),
        "progress_lsn": progress,
        "capture": {
            "slot": lag.capture.slot,
            "active": lag.capture.active,
            "behind_bytes": lag.capture.behind_bytes,
            "retained_bytes": lag.capture.retained_bytes,
        },
        "views": [
            {
                "view": item.view,
                "topic": item.topic,
                "partition": item.partition,
                "state": _state(item),
                "committed": item.committed,
                "end": item.end,
                "behind_records": item.behind_records,
                "behind_bytes": item.behind_bytes,
                "behind_s": round(item.behind_s, 3),
                "lost_records": item.lost_records,
                "parked_keys": waiting,
            }
            for item, waiting in zip(lag.views, waiting_keys(lag.views, parked), strict=True)
        ],
        "faults": [{"view": view, **fault} for view, fault in faults.items()],
    }


def table(
    lag: Lag, parked: Parked = MappingProxyType({}), faults: Faults = MappingProxyType({})
) -> Table:
    """Capture first, then a line for every view and partition; below, why views do not follow."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(caption_justify="left")
    grid.add_column("")
    grid.add_column("reads", overflow="fold")  # a partition's number stands at the end
    for title in ("records", "WAL", "seconds"):
        grid.add_column(title, justify="right")
    grid.add_column("state")
    capture = lag.capture
    if capture.behind_bytes is None:
        again = "" if lag.progress_lsn is None else " --again"  # Kafka holds what it read
        state = f"no slot: run headwater init{again}"
    else:
        kept = size(capture.retained_bytes)
        state = f"{'running' if capture.active else 'not running'}, the slot keeps {kept} of WAL"
    grid.add_row("capture", f"slot {capture.slot}", "", size(capture.behind_bytes), "", state)
    grid.add_section()
    shown = ""
    for item, waiting in zip(lag.views, waiting_keys(lag.views, parked), strict=True):
        grid.add_row(
            item.view if item.view != shown else "",
            f"{item.topic}-{item.partition}",
            f"{item.behind_records:,}",
            size(item.behind_bytes),
            f"{item.behind_s:,.1f}",
            _styled(item, waiting, faults.get(item.view)),
        )
        shown = item.view
    if faults:
        said = (
            f"{one['fault']}{f', since {at}' if (at := one.get('at')) else ''}: {one['hint']}"
            for one in faults.values()
        )
        grid.caption = Text("\n".join(said), style="red")
    return grid


def _state(item: PartitionLag) -> str:
    if not item.started:
        return "not started"
    if item.lost_records:
        return "lost"
    return "behind" if item.behind_records else "up to date"


_STYLES: Mapping[str, str] = {"not started": "yellow", "lost": "bold red", "up to date": "green"}


def _styled(item: PartitionLag, parked: int, fault: Mapping[str, str] | None) -> Text:
    from rich.text import Text

    state = _state(item)
    said = f"{item.lost_records:,} records lost to retention" if state == "lost" else state
    text = Text(f"{fault['kind']}, " if fault else "", style="red")
    text.append(said, _STYLES.get(state, ""))
    if parked:
        keys = f"{parked:,} key{'s' * (parked > 1)}"
        text.append(f", {keys} parked: headwater dead-letters list", "red")
    return text
