"""``headwater apply``: keep views equal to the source, until stopped."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.errors import HeadwaterError
from headwater.cli.common.context import MasterOption, configured_for, reloading
from headwater.cli.common.output import err, print_error

if TYPE_CHECKING:
    from cdc.config import Config

_ENDED = "what was applied is committed; `headwater apply` goes on from there"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("apply")(apply)


def apply(
    ctx: typer.Context,
    views: Annotated[
        list[str] | None, typer.Argument(metavar="[VIEW]...", help="Views to apply. Default: all.")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Apply what Kafka holds now, then exit.")
    ] = False,
    json_logs: Annotated[
        bool,
        typer.Option(
            "--json", help="Log as JSON lines (the default when output is not a terminal)."
        ),
    ] = False,
    master: MasterOption = None,
) -> None:
    """Apply changes from Kafka to the views' stores, until stopped.

    All views share one stream and one copy of their tables in the state database. Views that are
    added to the configuration are built without a restart; a view that fails is retried on its own.
    With apply.engine = "delta", for a cluster or much data, each view has its own stream and copy.

    It waits up to apply.retry_s for a source or Kafka that is away when it starts; not with
    --available-now or apply.engine = "delta". Killing it is safe: batches not recorded as applied
    are applied again, to the same result. On SIGTERM or Ctrl-C it finishes its batches and exits.

    \b
    Examples:
      headwater apply
      headwater apply flight_search --available-now
      headwater apply --master spark://host:7077
    """
    _keep_little()
    from cdc.debezium.progress import tracked
    from cdc.logs import configure
    from cdc.metrics.probes import Probes
    from cdc.shutdown_signals import told_to_stop
    from headwater.freshness import checked_views
    from headwater.metrics import apply_metrics
    from jobs.generations.last_error import forget, note
    from jobs.generations.view_state import view_directory
    from jobs.spark.jvm import light
    from jobs.spark.session import spark_session
    from jobs.without_mirrors.views import apply_views

    config = configured_for(ctx, master)
    names = _readable(config, views or [])
    json_lines = json_logs or not sys.stderr.isatty()
    configure(json_lines)
    forget(view_directory(config.apply.state, config.source.name, name) for name in names)
    reload, probes = reloading(ctx, master), Probes()
    with ExitStack() as stack:
        if not available_now:
            stack.enter_context(apply_metrics(reload, views or [], probes))
        stack.enter_context(tracked(config))
        spark = stack.enter_context(spark_session(light(config)))
        stopping = told_to_stop()  # after Spark, which takes SIGINT for itself
        if not available_now:
            stack.enter_context(checked_views(reload, views or []))  # some read their store by it
        if config.apply.engine == "database":
            from jobs.run.process import keep_views

            failed = keep_views(spark, config, views or [], reload, stopping, available_now, probes)
            for name, error in failed.items():
                note(view_directory(config.apply.state, config.source.name, name), name, error)
        else:
            failed = apply_views(spark, config, names, stopping, available_now, probes=probes)
    if not json_lines and len(failed) < len(names):
        err().print(_ENDED, style="dim", soft_wrap=True)
    _fail(failed)


def _keep_little() -> None:
    from jobs.spark.garbage_collector import keep_little

    keep_little()


def _readable(config: Config, views: Sequence[str]) -> list[str]:
    """The views to apply. Raises ``UsageError``, ``ViewError`` where the source's events lack
    changes, and ``LogError`` for topics of another database, which the database engine looks for
    itself."""
    from cdc.kafka.marks import refuse_known_foreign_topics
    from jobs.without_mirrors.views import chosen
    from views.event_form import refuse_shared, refuse_unread

    names = chosen(config, views)
    refuse_unread(config.form)
    refuse_shared(config.source.own_topic, [(name, config.views[name].sql) for name in names])
    if config.apply.engine == "delta":
        refuse_known_foreign_topics(config)
    return names


def _fail(failed: Mapping[str, HeadwaterError]) -> None:
    """Say what ended views, and exit with 1."""
    for fault in dict.fromkeys((error.message, error.hint) for error in failed.values()):
        print_error(*fault)  # once, though it ended several views
    if failed:
        raise typer.Exit(1)
