"""``headwater dlq`` of views that the state database keeps: parked rows, records not applied."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from cdc.errors import LogError, UsageError
from headwater.cli.common.format import age
from headwater.cli.common.output import err, out, print_json
from headwater.cli.common.records import key_text, labelled, plain, show, with_value
from headwater.cli.view.request import command, result

if TYPE_CHECKING:
    from rich.table import Table

    from cdc.config import Config
    from jobs.state.server.connection import Connection


class Waiting(NamedTuple):
    """A row of the view whose ``key`` is parked, its values as text; or, where ``record`` tells one
    (``topic-partition-offset``), a record of ``table`` that its mirror could not take."""

    view: str
    key: str
    cause: str
    since: datetime
    values: tuple[str, ...] = ()
    table: str = ""
    record: str = ""

    @property
    def of(self) -> str:
        """Whose key it is: the view, or a topic."""
        return self.record.rsplit("-", 2)[0] if self.record else self.view

    @property
    def id(self) -> str:
        digest = hashlib.sha256(self.key.encode()).hexdigest()[:16]
        return self.record or f"{self.view}-row-{digest}"

    @property
    def names(self) -> set[str]:
        """What the command line may call it."""
        short = {self.key, key_text(self.key.encode())}
        return {*short, *(f"{self.of}:{one}" for one in short)}


def waiting(config: Config, views: Sequence[str]) -> dict[str, list[Waiting]]:
    """What waits of each view. Raises ``StateError`` for a state that cannot be read."""
    from jobs.state.server.reader import reading_state

    with reading_state(config) as conn:
        return {view: [] if conn is None else list(_of(conn, config, view)) for view in views}


def _of(conn: Connection, config: Config, view: str) -> Iterable[Waiting]:
    from jobs.state.batch.faulty_records import faulty_records
    from jobs.state.views.generation_keys import live_record
    from jobs.state.views.parked_keys import parked_keys
    from views.parse.table_references import tables_read

    record = live_record(conn, config, view)
    sql = config.views[view].sql if record is None else record.sql
    if record is not None:
        for one in parked_keys(conn, record.id):
            key = json.dumps(dict(zip(record.key, one.key, strict=True)), ensure_ascii=False)
            assert one.since is not None, "it is parked"
            yield Waiting(view, key, one.cause, one.since, one.key)
    reads = {table.name for table in tables_read(view, sql)}
    for faulty in faulty_records(conn):
        if faulty.table in reads:
            yield Waiting(
                view, faulty.key, faulty.cause, faulty.since, (), faulty.table, faulty.record
            )


def described(view: str, found: Sequence[Waiting]) -> dict[str, Any]:
    """As JSON, by key; times in UTC."""
    by_key: dict[tuple[str, str], list[Waiting]] = {}
    for one in found:
        by_key.setdefault((one.of, one.key), []).append(one)
    return {
        "view": view,
        "keys": len(by_key),
        "events": len(found),
        "parked": [
            {
                "of": of[0].of,
                "key": of[0].key,
                "cause": of[0].cause,
                "since": _utc(of[0].since),
                "events": [
                    {"event": one.id, "parked": _utc(one.since), "cause": one.cause} for one in of
                ],
            }
            for of in by_key.values()
        ],
    }


def table(found: dict[str, list[Waiting]], events: bool) -> Table:
    """One line for each event, or each key."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    for title in ("view", "event" if events else "of", "key"):
        grid.add_column(title, overflow="fold")
    grid.add_column("parked", no_wrap=True)
    grid.add_column("cause", overflow="fold")
    for view, all_of_view in found.items():
        told = set()
        for one in all_of_view:
            if not events and (one.of, one.key) in told:
                continue
            told.add((one.of, one.key))
            of = "the view" if one.of == view else one.of
            grid.add_row(
                view,
                one.id if events else of,
                Text(plain(key_text(one.key.encode()))),
                f"{age(time.time() - one.since.timestamp())} ago",
                Text(plain(one.cause)),
            )
    return grid


def show_one(config: Config, view: str, event: str, as_json: bool) -> None:
    """One of them, with the record's value as Kafka has it, or the row's key."""
    one = next((one for one in waiting(config, [view])[view] if one.id == event), None)
    if one is None:
        raise LogError(
            f"there is no dead letter {event} of view {view}", "see headwater dlq list --events"
        )
    value = _value(config, one.record) if one.record else one.key.encode()
    told = {"view": view, "event": one.id, "cause": one.cause, "parked": _utc(one.since)}
    if as_json:
        typer.echo(with_value({**told, "key": one.key}, value), nl=False)
    else:
        show(labelled({**told, "key": key_text(one.key.encode())}), value)


def settle(
    reload: Callable[[], Config], kind: str, view: str, given: list[str] | None, as_json: bool
) -> None:
    """``retry`` or ``discard`` those that are ``given``, all if None. Exits with 1 where some are
    left."""
    found = waiting(reload(), [view])[view]
    chosen = found if given is None else _chosen(view, found, given)
    done: dict[str, Any] = {"events": 0, "keys": 0, "left": []}
    if not chosen:
        err().print(f"{view}: no dead letters")
    else:
        keys = [list(one.values) for one in chosen if not one.record]
        records = [[one.table, one.key] for one in chosen if one.record]
        wanted = command(kind, view, all=given is None, keys=keys, records=records)
        done = result(reload, wanted)
    if as_json:
        print_json({"view": view, **done})
    elif chosen:
        verb = "applied" if kind == "retry" else "given up"
        out().print(f"{view}: {done['events']:,} of {done['keys']:,} keys {verb}")
        for left in done["left"]:
            out().print(
                f"{view}: {plain(left['key'])} stays parked: {left['cause']}",
                soft_wrap=True,
                markup=False,
            )
        if kind == "discard":
            err().print(
                f"{view}: these rows stay as they are until they change again: `headwater verify "
                f"{view} --repair` makes them anew",
                style="yellow",
                soft_wrap=True,
            )
    if done["left"]:
        raise typer.Exit(1)


def _chosen(view: str, found: Sequence[Waiting], given: list[str]) -> list[Waiting]:
    chosen: list[Waiting] = []
    for key in given:
        of = {one.of for one in found if key in one.names}
        if not of:
            raise UsageError(f"view {view}: {key} is not parked", f"see headwater dlq list {view}")
        if len(of) > 1:
            raise UsageError(
                f"view {view}: {key} is parked of {' and '.join(sorted(of))}",
                f"write {min(of)}:{key}",
            )
        chosen += [one for one in found if key in one.names]
    return chosen


def _value(config: Config, record: str) -> bytes:
    from cdc.kafka.broker import Broker

    topic, partition, offset = record.rsplit("-", 2)
    at = int(offset)
    with closing(Broker(config.kafka.bootstrap_servers, config.kafka)) as broker:
        for one in broker.read(topic, int(partition), at, at + 1):
            return one.value or b""
    raise LogError(f"{record}: Kafka does not hold this record any more")


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
