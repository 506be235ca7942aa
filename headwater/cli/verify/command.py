"""``headwater verify``: source and view compared row by row at one LSN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.errors import UsageError, ViewError
from headwater.cli.common.context import configured, declared
from headwater.cli.common.output import err, notice, out, print_json
from headwater.cli.verify import state_views
from headwater.cli.verify.display import document, show
from headwater.cli.verify.steps import steps
from headwater.cli.view.request import command, result

if TYPE_CHECKING:
    from cdc.config import Config
    from cdc.kafka.broker import Broker
    from jobs.delta_engine.live_view import LiveMirrors
    from jobs.sinks.contract import Sink
    from verification.repair.rows import Repair
    from verification.report import Report
    from views.spark.view import View
    from views.table_versions import TableVersion


def register(app: typer.Typer) -> None:
    app.command(name="verify")(verify)


def verify(
    ctx: typer.Context,
    views: Annotated[list[str], typer.Argument(metavar="VIEW...", help="Names of views.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON; of several views, a list.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0, help="Seconds to wait for the view.")
    ] = 60.0,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Number of differences to show.")
    ] = 20,
    repair: Annotated[
        bool, typer.Option("--repair", help="Correct rows that differ, and compare them again.")
    ] = False,
) -> None:
    """Compare every row of each VIEW with the source, exactly, while both keep changing.

    Runs the view's SQL in the source, on a snapshot at an LSN, and reads the view once it has
    applied everything committed below that LSN. Rows that changed meanwhile are compared again.
    Needs one free replication slot while it starts.

    With --repair, rows that differ are recomputed from the mirrors in the state database, a running
    `headwater apply` writes them to the store, rows that the source does not have are deleted, and
    all of them are compared again. If rows still differ, the mirrors are read again from the
    source, unless a history reads them.

    With apply.engine = "delta" or mirror = false, this command writes the rows, and a running
    `headwater apply` pauses the view meanwhile: a view of one table is read from the source at that
    LSN, one with mirrors (several tables, GROUP BY, nested objects) is recomputed from them.

    Exit codes: 0 all rows are equal (with --repair: in the end), 1 a row differs.

    \b
    Examples:
      headwater verify open_orders
      headwater verify open_orders customers --repair
    """
    from verification.view_facts import is_kept_by_state

    config = configured(ctx)
    for view in views:
        declared(config, view)
    reports = []
    for view in dict.fromkeys(views):
        reports.append(_verified(ctx, config, view, timeout, limit, repair))
        if not as_json:
            show(reports[-1], out(), is_kept_by_state(config, view))
    if as_json:
        documents = [document(one) for one in reports]
        print_json(documents if len(documents) > 1 else documents[0])
    if not all(one.equal for one in reports):
        raise typer.Exit(1)


def _verified(
    ctx: typer.Context, config: Config, view: str, timeout: float, limit: int, repair: bool
) -> Report:
    """With ``repair``, what differs is set right by whoever can: see ``verify``."""
    from verification.report import resumed
    from verification.view_facts import is_kept_by_state

    if of_history := repair and _is_kept_history(config, view):
        repair = False
    report = _compared(config, view, timeout, limit, repair)
    if of_history and not report.equal:
        result(partial(configured, ctx), command("anew", view))
        report = _compared(config, view, timeout, limit, repair)
    if report.beyond_repair and is_kept_by_state(config, view) and _refilled(ctx, view):
        report = resumed(report, _compared(config, view, timeout, limit, repair))
    return report


def _refilled(ctx: typer.Context, view: str) -> bool:
    """Have the mirrors of its tables filled again, which are not what the tables are; whether they
    may be."""
    notice(f"{view}: its mirrors differ from their tables: these are read again from the source")
    try:
        result(partial(configured, ctx), command("refill", view))
    except UsageError as error:
        notice(error.message)
        return False
    return True


def _is_kept_history(config: Config, view: str) -> bool:
    """Whether it is a history that the state database keeps: what differs is read again from its
    mirror by whoever writes it."""
    from verification.view_facts import is_kept_by_state

    return is_kept_by_state(config, view) and bool(config.views[view].history)


def _compared(config: Config, view: str, timeout: float, limit: int, repair: bool) -> Report:
    """The verification's report. Raises what the view's store says if that is why it is late."""
    from verification.view_positions import NotReachedError

    try:
        return _as_it_is(config, view, timeout, limit, repair)
    except NotReachedError as error:
        if error.lacking:
            refuse_store_away(config, view)
        raise


def refuse_store_away(config: Config, view: str) -> None:
    """Raise ``HeadwaterError`` where the store of a view does not answer; not of Delta tables,
    which only Spark reads."""
    from jobs.sinks.stores import open_generations

    wanted = config.views[view]
    store = config.store(wanted.store)
    if store.kind != "delta":
        with closing(open_generations(store, view, None, 0.0, None, wanted.history)) as stored:
            stored.live()


def _as_it_is(config: Config, view: str, timeout: float, limit: int, repair: bool) -> Report:
    from cdc.kafka.event_reader import event_broker
    from cdc.kafka.marks import refuse_foreign_topics
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from jobs.without_mirrors.dead_letters.topic import waiting
    from verification.late_view_errors import watched
    from verification.view_facts import is_kept_by_state, view_facts
    from verification.view_verification import Verification

    with ExitStack() as stack:
        broker = stack.enter_context(event_broker(config))
        refuse_foreign_topics(config, broker)
        if is_kept_by_state(config, view):
            on_step = stack.enter_context(steps(err(), view))
            asked = state_views.Asked(view, timeout, limit, repair)
            return state_views.compared(config, asked, broker, on_step)
        directory = view_directory(config.apply.state, config.source.name, view)
        number = read_generations(directory).live_number
        resolved, versions = resolved_view(config, view, broker)
        on_step = stack.enter_context(steps(err(), view))

        @cache
        def session() -> Any:  # so is Spark
            from jobs.spark.session import spark_session

            return stack.enter_context(spark_session(config))

        @cache
        def sink() -> Sink:  # when the view is known to be there, not before
            return stack.enter_context(stored_view(config, resolved, session))

        def mending() -> Repair:
            from jobs.without_mirrors.replay.repair import LiveView
            from verification.repair.from_mirrors import RepairFromMirrors
            from verification.repair.rows import RepairFromSource
            from views.spark.view import MaintainedView

            if isinstance(resolved, MaintainedView):
                return RepairFromMirrors(
                    resolved, lambda: _mirrors(session(), config, view, number)
                )
            return RepairFromSource(
                config.source,
                resolved,
                broker,
                lambda: LiveView(session(), config, resolved, sink(), number),
                versions,
            )

        return Verification(
            config.source.dsn,
            config.source.name,
            config.source.publication_name,
            resolved,
            broker,
            lambda keys: sink().scan(keys),
            timeout_s=timeout,
            limit=limit,
            on_step=on_step,
            repair=mending() if repair else None,
            parked=lambda: waiting(config, broker, view),
            versions=versions,
            on_lacking=watched(view_facts(config, broker), view, notice),
            settings=config.source,
        ).run()


def _mirrors(session: Any, config: Config, view: str, number: int) -> LiveMirrors:
    from jobs.delta_engine.live_view import LiveMirrors

    return LiveMirrors(session, config, view, number)


def resolved_view(config: Config, name: str, broker: Broker) -> tuple[View, list[TableVersion]]:
    """The view against the newest version of its table, as ``headwater apply`` has it; and all
    versions of its first one.

    What people read may have been built as it was declared before, and its columns may have other
    names in the source by now.
    """
    from jobs.generations.declaration import declared as remembered
    from jobs.generations.declaration import differing
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from jobs.without_mirrors.column_names import Names, live_state
    from jobs.without_mirrors.table_descriptions import NotDescribedError, described, newest
    from views.parse.definition import parse_view
    from views.spark.view import resolve_view

    view = declared(config, name)
    parsed = parse_view(name, view.store, view.key, view.sql, view.history)
    directory = view_directory(config.apply.state, config.source.name, name)
    live = read_generations(directory).live
    if live is not None and differing(live.declared, remembered(parsed)):
        parsed = live.declared.parsed(name)
    try:
        found = described(broker, config.source.name, parsed)
    except NotDescribedError as error:
        hint = "run `headwater init`, then `headwater capture`"
        raise ViewError(error.message, hint) from None
    versions = Names(broker, config.source.own_topic, parsed, live_state(directory)).under(found)
    return resolve_view(parsed, newest(versions)), list(versions[parsed.table_name].values())


@contextmanager
def stored_view(config: Config, view: View, session: Callable[[], Any]) -> Iterator[Sink]:
    """The view in its store, ready to be read. Spark runs for a Delta view only."""
    from jobs.generations.live_generation import refuse_lost
    from jobs.sinks.stores import open_sink
    from jobs.spark.column_types import columns_of

    store = config.store(view.definition.store)
    spark = session() if store.kind == "delta" else None
    wanted, history = config.views.get(view.name), view.definition.history
    refuse_lost(spark, config, view.definition)
    sink = open_sink(
        store, view.name, spark, config.apply.retry_s, declared=wanted, history=history
    )
    try:
        sink.prepare(columns_of(view), view.key)
        yield sink
    finally:
        sink.close()
