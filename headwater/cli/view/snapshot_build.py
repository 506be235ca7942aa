"""Builds of views without mirrors, each from a snapshot: done here, and told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headwater.cli.common.output import err, out, print_json
from headwater.cli.view.request import telling

if TYPE_CHECKING:
    from bootstrap.build import Built
    from cdc.config import Config


def build_from_snapshots(
    config: Config,
    views: list[str],
    hold: bool,
    as_json: bool,
    new: bool,
    new_history: bool,
    despite_forecast: bool,
) -> None:
    from bootstrap.process import build_views
    from cdc.kafka.marks import refuse_known_foreign_topics
    from headwater.cli.common.output import print_error
    from views.event_form import refuse_shared, refuse_unread

    refuse_unread(config.form)
    known = [(name, config.views[name].sql) for name in views if name in config.views]
    refuse_shared(config.source.own_topic, known)
    refuse_known_foreign_topics(config)
    with telling() as teller:
        built, failed = build_views(config, views, hold, new, teller, new_history, despite_forecast)
    if as_json:
        print_json([document(one) for one in built])
    else:
        for one in built:
            out().print(said(one), soft_wrap=True)
    for one in built:
        if one.dead_letters:
            err().print(lacking(one), style="yellow", soft_wrap=True)
    for fault in dict.fromkeys((error.message, error.hint) for error in failed.values()):
        print_error(*fault)
    if failed:
        raise typer.Exit(1)


def said(built: Built) -> str:
    """One line: what is live now, and how long its parts took."""
    took = ", ".join(f"{name} {seconds:.1f}" for name, seconds in built.seconds.items())
    state = "is live" if built.live else "is held beside what is live"
    seconds = sum(built.seconds.values())
    then = ""
    if built.live and built.applied is False:
        then = f"; no process applies it: `headwater apply {built.view}` keeps it"
    return (
        f"{built.view}: generation {built.generation} {state}: {built.rows:,} rows read, "
        f"in {seconds:.1f} s ({took}){then}"
    )


def lacking(built: Built) -> str:
    """One line: which rows the view does not have, and the way to them."""
    return (
        f"{built.view}: {built.dead_letters:,} rows of its table are missing, as they were too "
        "large for Kafka (headwater dead-letters list): once apply keeps the view, headwater "
        f"verify {built.view} names them, and with --repair writes them"
    )


def document(built: Built) -> dict[str, object]:
    """The same as JSON."""
    return {
        "view": built.view,
        "generation": built.generation,
        "live": built.live,
        "rows": built.rows,
        "dead_letters": built.dead_letters,
        "applied": built.applied,
        "seconds": {name: round(seconds, 3) for name, seconds in built.seconds.items()},
    }
