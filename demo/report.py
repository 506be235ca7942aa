"""What the demo says at its end: one table, one line of verdict, or one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo.environment import SOURCE, Addresses
from demo.freshness import Freshness
from demo.status import Stage

_FRESH = """\
  Freshness: from commit in PostgreSQL to applied in the store, p50 / p99, live traffic only.
  Calm leaves out the time from each kill -9 until all that was written meanwhile was applied."""


class ViewReport(NamedTuple):
    """One verified view. ``calm`` is the freshness outside the kill windows."""

    name: str
    store: str
    rows_source: int
    rows_view: int
    differences: int
    lsn: str
    calm: Freshness
    overall: Freshness


class Totals(NamedTuple):
    """What was done to get there."""

    transactions: int
    rows_loaded: int
    rows_written: int
    events: int
    seconds: float


def succeeded(views: Sequence[ViewReport]) -> bool:
    """Whether every view equals the source."""
    return bool(views) and all(view.differences == 0 for view in views)


def show(
    console: Console, views: Sequence[ViewReport], stages: Sequence[Stage], totals: Totals
) -> None:
    """Print the result for a person."""
    console.print(_views(views))
    console.print(Text(f"\n{_FRESH}\n\n{_durations(stages)}", style="dim"))
    verdict = (
        ("  ✓ ", "bold green") if succeeded(views) else ("  ✗ ", "bold red"),
        (_verdict(views), "bold"),
        f" after {totals.transactions:,} transactions, {totals.rows_written:,} rows written, "
        f"{totals.events:,} events and two kill -9, in {totals.seconds:.0f} s",
    )
    console.print()
    console.print(Text.assemble(*verdict), soft_wrap=True)


def document(
    views: Sequence[ViewReport], stages: Sequence[Stage], totals: Totals
) -> dict[str, Any]:
    """The same for a machine. Times are in the unit that their name ends in."""
    return {
        "ok": succeeded(views),
        "demo_s": round(totals.seconds, 1),
        "transactions": totals.transactions,
        "rows_loaded": totals.rows_loaded,
        "rows_written": totals.rows_written,
        "events": totals.events,
        "stages_s": {stage.title: round(stage.seconds, 1) for stage in stages},
        "views": [_view(view) for view in views],
    }


def around(addresses: Addresses, home: Path) -> str:
    """How to look at what a demo left running."""
    cache = urlsplit(addresses.redis)
    return f"""
  The servers are still up. Look around:
    source      {addresses.dsn}
    lake        {home / "lake" / "flights"}  (Delta table)
    search      {addresses.opensearch}/flight_search/_search?q=destination.name:Chicago
    cache       redis-cli -p {cache.port} hget aircraft@1:N239JB doc
    topics      {addresses.kafka}  {SOURCE}.public.*
  Go on:        headwater --config {home / "headwater.toml"} capture
  Stop them:    headwater down --home {home / "servers"}"""


def _views(views: Sequence[ViewReport]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for title in ("", "view", "store"):
        table.add_column(title, no_wrap=True)
    for title in ("in source", "in view", "differ", "fresh (calm)", "fresh (all)"):
        table.add_column(title, justify="right", no_wrap=True)
    for view in views:
        mark, style = ("✓", "green") if view.differences == 0 else ("✗", "bold red")
        table.add_row(
            Text(mark, style=style),
            view.name,
            view.store,
            f"{view.rows_source:,}",
            f"{view.rows_view:,}",
            Text(f"{view.differences:,}", style=style),
            percentiles(view.calm),
            percentiles(view.overall),
        )
    return table


def percentiles(fresh: Freshness) -> str:
    """``p50 / p99`` in seconds."""
    if fresh.p50_ms is None or fresh.p99_ms is None:
        return "-"
    return f"{fresh.p50_ms / 1000:.2f} / {fresh.p99_ms / 1000:.2f} s"


def _durations(stages: Sequence[Stage]) -> str:
    parts = [f"{stage.title} {stage.seconds:.1f} s" for stage in stages if stage.seconds]
    return "  " + " · ".join(parts)


def _verdict(views: Sequence[ViewReport]) -> str:
    if succeeded(views):
        return "every view equals the source"
    wrong = [view.name for view in views if view.differences]
    return f"{', '.join(wrong) or 'no view'} differs from the source"


def _view(view: ViewReport) -> dict[str, Any]:
    return {
        "view": view.name,
        "store": view.store,
        "rows_source": view.rows_source,
        "rows_view": view.rows_view,
        "differences": view.differences,
        "lsn": view.lsn,
        "fresh_calm_ms": _fresh(view.calm),
        "fresh_overall_ms": _fresh(view.overall),
    }


def _fresh(fresh: Freshness) -> dict[str, float | int | None]:
    return {"p50": fresh.p50_ms, "p99": fresh.p99_ms, "samples": fresh.samples}
