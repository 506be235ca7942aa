"""``headwater replay``: a view's changes again, from an earlier place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.errors import UsageError
from cdc.plural import plural
from headwater.cli.common.context import configured, declared
from headwater.cli.common.output import err, out, print_json
from headwater.cli.view.request import command, kept_by_state, result

if TYPE_CHECKING:
    from cdc.config import Config
    from cdc.kafka.broker import Broker
    from jobs.without_mirrors.replay.replay import Replayed


def register(app: typer.Typer) -> None:
    app.command(name="replay")(replay)


def replay(
    ctx: typer.Context,
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    from_: Annotated[
        str,
        typer.Option("--from", metavar="PLACE", help="Where to start, see above."),
    ],
    archive: Annotated[
        str,
        typer.Option(metavar="LOG_VIEW", help="Read what Kafka has lost from this view's table."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Apply a view's changes again, from an earlier position of its topics to their end.

    Use it for a store that was restored from a backup or has lost rows. Rows that the store still
    holds stay as they are, by their position; to correct rows that were edited by hand, use
    `headwater verify --repair`. A running `headwater apply` restarts the view from there;
    otherwise the next one does. Until the view has caught up, `lag` counts what is left, `wait`
    waits, and deleted rows may reappear if the store has forgotten their deletes.

    In a view with mirrors (several tables, GROUP BY, nested objects) the rows that these changes
    touch are recomputed from the mirrors. If the state database keeps the mirrors, all rows of the
    view are recomputed, and the command exits when they are written. Changes from before the
    snapshot that filled a view are not replayed.

    If retention has removed what is asked for, name an archive: a view of the same table with
    history = "log". Its changes are written to the view, which then goes on in Kafka where the
    archive ends. It needs the same WHERE, the same key and at least the columns of the view.

    PLACE is `beginning`, an LSN, a commit time (UTC unless it names an offset), an offset that
    applies to every partition, or TOPIC-PARTITION-OFFSET.

    \b
    Examples:
      headwater replay open_orders --from 2026-11-22T10:00Z
      headwater replay open_orders --from 0/16B3748
      headwater replay open_orders --from shop.public.orders-0-1234
      headwater replay open_orders --from beginning
      headwater replay events --from beginning --archive events_log
    """
    from cdc.kafka.broker import Broker
    from cdc.kafka.marks import refuse_known_foreign_topics
    from jobs.without_mirrors.replay.replay import replay as again
    from jobs.without_mirrors.replay.start_position import parse_place

    place = parse_place(from_)
    config = configured(ctx)
    declared(config, view)
    if kept_by_state(config, [view]):
        if archive:
            raise UsageError(
                f"view {view} is kept over mirrors, from which its rows are written again",
                "leave out --archive: Kafka is not needed",
            )
        _made_anew(ctx, view, as_json)
        return
    refuse_known_foreign_topics(config)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        if archive:
            done = _out_of_archive(config, broker, view, archive, from_)
        else:
            done = again(config, broker, view, from_, place)
    if as_json:
        print_json(document(view, done))
        return
    out().print(said(view, done), soft_wrap=True, markup=False)
    err().print(f"`headwater wait {view}` returns when it is done", style="dim")


def _out_of_archive(config: Config, broker: Broker, view: str, archive: str, text: str) -> Replayed:
    from headwater.cli.verify.command import resolved_view, stored_view
    from jobs.generations.view_state import view_directory
    from jobs.spark.session import spark_session
    from jobs.without_mirrors.replay.archive import replay_archive
    from jobs.without_mirrors.replay.replay import live_generation
    from jobs.without_mirrors.replay.start_position import parse_place
    from views.spark.resolution import ResolvedView

    directory = view_directory(config.apply.state, config.source.name, view)
    number = live_generation(directory, view).number
    (of, _), (kept, _) = (resolved_view(config, name, broker) for name in (view, archive))
    if not (isinstance(of, ResolvedView) and isinstance(kept, ResolvedView)):
        raise UsageError(
            f"{view} and its archive have to read one table", "use `headwater view rebuild`"
        )
    with (
        spark_session(config) as spark,
        stored_view(config, of, lambda: spark) as sink,
        stored_view(config, kept, lambda: spark) as archived,
    ):
        place = parse_place(text)
        return replay_archive(config, broker, of, sink, kept, archived, text, place, number)


def _made_anew(ctx: typer.Context, view: str, as_json: bool) -> None:
    """Of a view that the state database keeps: all of its rows, from the mirrors as they are."""
    done = result(partial(configured, ctx), command("anew", view))
    if as_json:
        print_json({"view": view, **done})
        return
    generation, rows = done["generation"], done["rows"]
    out().print(
        f"{view}: generation {generation}: {plural(rows, 'row')} computed and written again"
    )


def said(view: str, done: Replayed) -> str:
    """One line a partition, what it amounts to first."""
    lines = [f"{view}: generation {done.generation} applies {plural(done.records, 'record')} again"]
    if done.archived:
        lines.insert(0, f"{view}: {plural(done.archived, 'row')} written out of the archive")
    for topic, starts in done.starts.items():
        for partition, at in sorted(starts.items()):
            end = done.until[topic].get(partition, 0)
            if at < end:
                lines.append(f"  {topic}-{partition}: offsets {at:,} to {end - 1:,}")
    return "\n".join(lines)


def document(view: str, done: Replayed) -> dict[str, Any]:
    """As JSON: ``until`` are the next offsets that were to be applied."""
    return {
        "view": view,
        "generation": done.generation,
        "records": done.records,
        "archived": done.archived,
        "from": done.starts,
        "until": done.until,
    }
