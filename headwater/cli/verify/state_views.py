"""``headwater verify`` of a view that is kept over mirrors in the state database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from cdc.errors import RetryableError, SourceError, StateError, ViewError
from headwater.cli.common.output import notice

if TYPE_CHECKING:
    from cdc.config import Config
    from cdc.kafka.broker import Broker
    from jobs.sinks.contract import Sink
    from jobs.state.server.connection import Connection
    from jobs.state.views.view_names import TableNames
    from jobs.state.views.view_record import ViewRecord
    from verification.batch_end import BatchEnds
    from verification.change_window import ChangeWindow, LogWindow
    from verification.key_walk import KeyWalk
    from verification.repair.from_state import RepairFromState
    from verification.report import Report
    from verification.select_view import SelectView
    from verification.source_rows import SourceSnapshot
    from views.table_versions import TableVersion

_NO_COLUMN: Final = "42703"
_LOCK_MS: Final = 200
"""Batches are not held up for longer by a check in the background, which can be made later."""


class Asked(NamedTuple):
    """What the command was given."""

    view: str
    timeout_s: float
    limit: int
    repair: bool
    walk: KeyWalk | None = None
    """Compare the next keys of it alone."""


class Described(NamedTuple):
    """A view as the source describes it now, where it is stored, the history that is kept there,
    its tables, and why none of its rows is one row of a table, "" where each is."""

    view: SelectView
    store: str
    history: str
    tables: tuple[TableVersion, ...]
    no_row_key: str = ""


class _Standing(NamedTuple):
    """What the state database has to do with a verification."""

    window: ChangeWindow | None = None
    parked: Callable[[SourceSnapshot], set[bytes]] | None = None
    repair: RepairFromState | None = None


def compared(
    config: Config, asked: Asked, broker: Broker, on_step: Callable[[str], None]
) -> Report:
    """The verification's report. Raises ``StateError`` for a repair while the state database does
    not run, and what ``Verification.run`` does."""
    from jobs.state.dead_letters.parked_keys import count_parked_of_tables
    from jobs.state.views.generation_keys import generation_keys
    from jobs.state.views.view_names import read_names
    from jobs.state.views.view_status import state_session
    from verification.batch_end import BatchEnds
    from verification.key_walk import has_plain_key
    from verification.late_view_errors import watched
    from verification.view_facts import view_facts
    from verification.view_verification import Verification

    with ExitStack() as stack:
        conn = stack.enter_context(state_session(config))
        record = None if conn is None else _live(conn, config, asked.view)
        known = read_names(conn, record.id) if conn is not None and record is not None else {}
        found = described(config, asked.view, record, known)
        view, standing, sample = found.view, _Standing(), None
        if asked.walk is not None:
            if conn is None or record is None or found.history:
                raise _not_sampled(asked.view, "it is a history, or not kept now")
            if not has_plain_key(view):
                raise _not_sampled(asked.view, "its key is not of integers, texts and booleans")
            sample = asked.walk.keys(conn, generation_keys(conn, record))
        if found.history:  # its rows have positions of their own, and no keys that are dirty
            standing = _Standing(_log_window(found, broker, config))
        elif conn is not None and record is not None:
            ends = BatchEnds(broker, view, config.source)
            standing = stack.enter_context(_standing(conn, record, asked, ends, on_step))
        elif asked.repair:
            raise StateError(
                f"view {asked.view}: its rows are computed in the state database, which is not "
                "running",
                "start `headwater apply`, which starts it, then repair",
            )

        @cache
        def sink() -> Sink:  # when the view is known to be there, not before
            return stack.enter_context(stored(config, found, asked.walk is None))

        tell = notice if asked.walk is None else on_step  # apply's log is no terminal
        report = Verification(
            config.source.dsn,
            config.source.name,
            config.source.publication_name,
            view,
            broker,
            lambda keys: sink().scan(keys),
            timeout_s=asked.timeout_s,
            limit=asked.limit,
            on_step=on_step,
            repair=standing.repair,
            on_lacking=watched(view_facts(config, broker), asked.view, tell),
            window=standing.window,
            parked_keys=standing.parked,
            sample=sample,
            settings=config.source,
        ).run()
        if conn is not None and record is not None:
            report.waiting = count_parked_of_tables(conn, record)
    if standing.repair is not None:
        report.awaiting = len(standing.repair.awaiting)
        report.beyond_repair = max(0, report.beyond_repair - report.awaiting)
    return report


def _not_sampled(view: str, why: str) -> ViewError:
    return ViewError(
        f"view {view} cannot be checked by samples: {why}",
        f"`headwater verify {view}` compares all of it",
    )


def described(
    config: Config,
    name: str,
    record: ViewRecord | None,
    known: Mapping[str, TableNames] = MappingProxyType({}),
) -> Described:
    """As it was built, if that is known here, else as it is declared. ``known`` is what it calls
    its tables' columns."""
    from bootstrap.view_sql import ViewSql
    from cdc.source.errors import sqlstate
    from cdc.source.postgres import connect
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from verification.scope import published_relations
    from verification.select_view import described_view
    from verification.values.treated_values import TreatedValues
    from verification.view_facts import declared_view

    wanted = declared_view(config, name)
    sql, key, store = wanted.sql, wanted.key, wanted.store
    history: str = wanted.history
    directory = view_directory(config.apply.state, config.source.name, name)
    if record is not None:
        sql, key, store, history = record.sql, record.key, record.store, record.history
    elif (live := read_generations(directory).live) is not None:
        of = live.declared
        sql, key, store, history = of.sql, of.key, of.store, of.history
    with connect(config.source.dsn, application_name="headwater verify") as conn:
        treated = TreatedValues(config.source.treated)
        relations = published_relations(conn, config.source.publication_name, treated=treated)
        kept = ViewSql(conn, config.source, name, sql, tuple(key))
        over = kept.over_source(known, relations)
        try:
            view = described_view(
                conn, name, key, sql, relations, over.names, over.whole, over.row_key
            )
        except SourceError as error:
            if record is not None or sqlstate(error) != _NO_COLUMN:
                raise
            raise SourceError(
                error.message,
                f"run `headwater apply {name}`, then verify: the state database, which is not "
                "running, knows the present names of columns that were renamed",
            ) from error
        return Described(view, store, history, over.tables, over.no_row_key)


def _log_window(found: Described, broker: Broker, config: Config) -> LogWindow:
    """Of a history."""
    from verification.change_window import LogWindow

    topics = [config.source.own_topic(*table) for table in found.view.tables]
    return LogWindow(broker, found.view, topics, found.tables)


def _live(conn: Connection, config: Config, view: str) -> ViewRecord:
    from jobs.state.views.generation_keys import live_record
    from jobs.state.views.view_record import unbuilt_errors

    if (record := live_record(conn, config, view)) is None:
        error = unbuilt_errors(conn).get(view, "")
        raise ViewError(
            f"view {view}: the state database knows no live generation of it"
            + (f": {error}" if error else ""),
            "run `headwater apply` to build it; `headwater view list` shows the progress",
        )
    return record


@contextmanager
def _standing(
    conn: Connection,
    record: ViewRecord,
    asked: Asked,
    ends: BatchEnds,
    on_step: Callable[[str], None],
) -> Iterator[_Standing]:
    from jobs.state.views.generation_keys import generation_keys
    from jobs.state.views.key_watch import key_watch
    from verification.change_window import WatchWindow
    from verification.parked_rows import parked_in_state
    from verification.repair.from_state import RepairFromState

    keys = generation_keys(conn, record)
    repair = RepairFromState(conn, keys, asked.timeout_s, on_step) if asked.repair else None
    with key_watch(conn, keys, None if asked.walk is None else _LOCK_MS) as watch:
        yield _Standing(WatchWindow(watch, ends), parked_in_state(conn, record.id), repair)


@contextmanager
def stored(config: Config, found: Described, may_start: bool = True) -> Iterator[Sink]:
    """The view in its store, ready to be read. Spark runs for a Delta view only: that of this
    process, or one that is started if that ``may`` be. Raises ``RetryableError`` if not."""
    from jobs.generations.view_state import lost_error
    from jobs.sinks.stores import open_generations, open_sink
    from jobs.state.views.view_columns import spark_columns

    view, history = found.view, found.history
    settings, retry_s = config.store(found.store), config.apply.retry_s
    with ExitStack() as stack:
        spark = None
        if settings.kind == "delta":
            from jobs.spark.session import running_session, spark_session

            spark = running_session()
            if spark is None and not may_start:
                raise RetryableError("Spark does not run in this process", "apply starts it")
            spark = spark or stack.enter_context(spark_session(config))
        stored = open_generations(settings, view.name, spark, retry_s, None, history)
        stack.callback(stored.close)
        if stored.live() is None:
            raise lost_error(view.name, found.store)
        declared = config.views[view.name]
        sink = open_sink(
            settings, view.name, spark, retry_s, None, declared, history, made_anew=True
        )
        stack.callback(sink.close)
        sink.prepare(spark_columns(view.columns), view.key)
        yield sink
