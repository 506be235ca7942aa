"""What pages show beside lag, asked of servers and files. Each of these blocks, for threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cdc.config import Config
from cdc.errors import ConfigError, HeadwaterError, LogError, ViewError
from cdc.kafka.broker import Broker
from cdc.source.postgres import connect
from headwater.check import preflight
from headwater.cli.check import snapshot_status
from headwater.cli.dead_letters import capture, database_views, topic_views
from headwater.cli.dead_letters.entry import Entry, by_key
from headwater.pipeline.pages import (
    Check,
    DeadLetterLine,
    PartitionPage,
    SnapshotLine,
    SnapshotsPage,
    TopicPage,
    TopicsPage,
)
from headwater.pipeline.snapshots import snapshot_line
from jobs.state.views.view_status import state_session
from jobs.without_mirrors.dead_letters.letter import BEHIND
from snapshots.status import snapshots
from verification.view_facts import is_kept_by_state
from views.parse.table_references import tables_read

_MOST_SNAPSHOTS: Final = 50


def checks(config: Config, reload: Callable[[], Config]) -> tuple[Check, ...]:
    """What ``headwater check`` finds of source, views, Kafka and stores, by the configuration as it
    is now. ``config`` is that of this process, which may know other views and alerts."""
    try:
        now = reload()
    except ConfigError as error:
        return (Check("error", "configuration", error.message, error.hint),)
    found = preflight(now, lambda conn: snapshot_status(conn, now.source.name))
    told = [Check(one.level, one.check, one.message, one.hint) for one in found]
    if other := sorted(config.views.keys() ^ now.views.keys()):
        views = ", ".join(other)
        message = f"its views are those of its start; declared or removed since: {views}"
        told.append(Check("warning", "headwater serve", message, "restart `headwater serve`"))
    if other := _other_alerts(config, now):
        message = f"it sends alerts on rows as at its start; changed since: {', '.join(other)}"
        told.append(Check("warning", "headwater serve", message, "restart `headwater serve`"))
    return tuple(told)


def _other_alerts(config: Config, now: Config) -> list[str]:
    """Names of alerts on rows that are not the same in both."""
    one, other = config.alerts, now.alerts
    return sorted(
        name
        for name in one.rows.keys() | other.rows.keys()
        if name not in one.rows
        or name not in other.rows
        or one.rows[name] != other.rows[name]
        or one.secret_of(one.rows[name]) != other.secret_of(other.rows[name])
    )


def topics(
    config: Config, tables: Mapping[str, Sequence[str]], read_by: Mapping[str, Sequence[str]]
) -> TopicsPage:
    """``tables`` are labels by topic, ``read_by`` the views of each."""
    at_s, named = time.time(), sorted(tables)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        there = sorted(broker.partitions(named))
        begins, ends = broker.beginning_offsets(there), broker.end_offsets(there)
        settings = broker.topic_config(there)
    pages = []
    for topic in there:
        own = settings.get(topic, {})
        parts = tuple(
            PartitionPage(number, begins[topic][number], end)
            for number, end in sorted(ends[topic].items())
        )
        deletes = "delete" in own.get("cleanup.policy", "delete")
        kept_ms = _limit(own.get("retention.ms")) if deletes else None
        pages.append(
            TopicPage(
                topic,
                ", ".join(tables[topic]),
                parts,
                sum(one.end - one.begin for one in parts),
                None if kept_ms is None else kept_ms / 1000,
                _limit(own.get("retention.bytes")) if deletes else None,
                own.get("cleanup.policy", ""),
                tuple(read_by.get(topic, ())),
            )
        )
    return TopicsPage(at_s, tuple(pages))


def snapshot_lines(config: Config) -> SnapshotsPage:
    """The newest of the source's snapshots."""
    with connect(config.source.dsn, application_name="headwater serve") as conn:
        found = snapshots(conn, config.source.name)
    newest = sorted(found, key=lambda one: -one.id)[:_MOST_SNAPSHOTS]
    lines: list[SnapshotLine] = [snapshot_line(one) for one in newest]
    return SnapshotsPage(time.time(), tuple(lines))


def dead_letters(
    config: Config, tables: Mapping[str, Sequence[str]], of_capture: capture.Listing
) -> tuple[float, tuple[DeadLetterLine, ...], tuple[str, ...]]:
    """When they were read, all of them, and what could not be read. ``tables`` are labels by
    topic."""
    at_s, problems = time.time(), list[str]()
    entries = [*_of_views(config, problems)]
    try:
        entries += of_capture.entries(config)
    except HeadwaterError as error:
        problems.append(str(error))
    lines = [_letter(config, of, tables) for of in by_key(entries)]
    return at_s, tuple(lines), tuple(problems)


def _of_views(config: Config, problems: list[str]) -> Iterator[Entry]:
    """No state database is started for it: that is for a process that keeps views."""
    of_state = [view for view in config.views if is_kept_by_state(config, view)]
    try:
        if of_state:
            with state_session(config) as conn:
                if conn is None:
                    problems.append("the state database is not running: start `headwater apply`")
                for found in database_views.entries_in(conn, config, of_state).values():
                    yield from found
    except HeadwaterError as error:
        problems.append(str(error))
    for view in config.views:
        if view in of_state:
            continue
        try:
            yield from topic_views.entries(config, view)
        except (LogError, ViewError) as error:
            problems.append(str(error))


def _letter(
    config: Config, of: Sequence[Entry], tables: Mapping[str, Sequence[str]]
) -> DeadLetterLine:
    """A record of a topic of several tables may be of each of them."""
    first = next((one for one in of if one.cause != BEHIND), of[0])
    if first.is_row:
        sql = config.views[first.view].sql
        read = tuple(table.name for table in tables_read(first.view, sql))
    else:
        read = (first.table,) if first.table else tuple(tables.get(first.of, ("",)))
    return DeadLetterLine(
        first.view,
        read,
        first.id,
        first.key,
        first.name,
        first.cause,
        len(of),
        of[0].since.timestamp(),
    )


def _limit(text: str | None) -> int | None:
    """A number of Kafka's settings, where -1 is none."""
    number = int(text) if text else -1
    return number if number >= 0 else None
