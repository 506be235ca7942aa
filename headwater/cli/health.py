"""``headwater health``: whether capture and apply do their work, for people and for probes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.errors import one_line
from headwater.cli.common.context import captured
from headwater.cli.common.output import err, out, print_json

if TYPE_CHECKING:
    from cdc.capture.health import Health
    from cdc.config import Config

_DEFAULT_AGE_S = 60.0
_DEFAULT_LAG_S = 60.0


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="health")(health)


def health(
    ctx: typer.Context,
    max_age: Annotated[
        float,
        typer.Option("--max-age", metavar="SECONDS", help="Maximum age of the last heartbeat."),
    ] = _DEFAULT_AGE_S,
    views: Annotated[bool, typer.Option("--views", help="Also check the views.")] = False,
    max_lag: Annotated[
        float,
        typer.Option(
            "--max-lag", metavar="SECONDS", help="With --views: the maximum lag behind the source."
        ),
    ] = _DEFAULT_LAG_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that capture is alive, for a container's health probe.

    Capture is alive if a heartbeat written to the source has come through the stream and is
    durable in Kafka. With --views it also fails for a view that was not built, that has stopped,
    that no process applies, or whose store has lacked a commit of the source for longer than
    --max-lag, whether that is in Kafka or not.

    Exit codes: 0 healthy, 1 not.

    \b
    Examples:
      headwater health
      headwater health --max-age 30 --json
      headwater health --views --max-lag 60
    """
    from cdc.capture.health import measure
    from cdc.kafka.broker import Broker
    from cdc.source.postgres import connect

    config = captured(ctx)
    with (
        connect(config.source.dsn, application_name="headwater health") as conn,
        Broker(config.kafka.bootstrap_servers, config.kafka) as broker,
    ):
        found = measure(config, conn, broker, max_age, time.time())
    of_views = view_problems(config, max_lag) if views else []
    if as_json:
        print_json(document(found, of_views))
    else:
        _show(found, of_views)
    if of_views or not found.healthy:
        raise typer.Exit(1)


def view_problems(config: Config, max_lag_s: float) -> list[str]:
    """What is wrong with views: they stopped, nobody applies them, or they are late."""
    from headwater.lag.watch import LagWatch, told
    from verification.view_faults import late

    with closing(LagWatch(lambda: config)) as looks:
        seen = looks.look()
        if late(seen.report, max_lag_s):  # what a first look cannot tell is taken to be missing
            seen = looks.settled()
    faults = seen.faults
    problems = [_told(view, fault) for view, fault in told(faults).items()]
    problems += [f"view {view}: {error}" for view, error in seen.unmeasured.items()]
    return problems + late(seen.report, max_lag_s, faults)


def _told(view: str, fault: Mapping[str, str]) -> str:
    said = fault["fault"]
    named = said if said.startswith((f"view {view}", f"views {view}")) else f"view {view}: {said}"
    since = f", since {at}" if (at := fault.get("at")) else ""
    return one_line(f"{named}{since}", fault["hint"])


def document(found: Health, of_views: Sequence[str] = ()) -> dict[str, Any]:
    """As JSON: ages in seconds, sizes in bytes."""
    return {
        "healthy": found.healthy and not of_views,
        "problems": [*found.problems, *of_views],
        "heartbeat_age_s": _rounded(found.heartbeat_age_s),
        "progress_age_s": _rounded(found.progress_age_s),
        "slot": found.slot,
        "active_pid": found.active_pid,
        "wal_status": found.wal_status,
        "unconfirmed_bytes": found.unconfirmed_bytes,
        "retained_bytes": found.retained_bytes,
    }


def _show(found: Health, of_views: Sequence[str]) -> None:
    from headwater.cli.common.format import size

    read = f"read by process {found.active_pid}" if found.active_pid else "not read"
    lines = {
        "heartbeat": _ago(found.heartbeat_age_s),
        "progress": _ago(found.progress_age_s),
        "slot": f"{found.slot}, {read}, wal_status {found.wal_status or '-'}",
        "unconfirmed": f"{size(found.unconfirmed_bytes)} of WAL",
        "held back": f"{size(found.retained_bytes)} of WAL",
    }
    console = out()
    well = found.healthy and not of_views
    console.print("healthy" if well else "not healthy", style="bold")
    for name, said in lines.items():
        console.print(f"{name:<12} {said}", soft_wrap=True, markup=False)
    for problem in (*found.problems, *of_views):
        err().print(problem, style="red", soft_wrap=True, markup=False)


def _ago(age_s: float | None) -> str:
    return "none yet" if age_s is None else f"{age_s:.1f} s ago"


def _rounded(age_s: float | None) -> float | None:
    return None if age_s is None else round(age_s, 3)
