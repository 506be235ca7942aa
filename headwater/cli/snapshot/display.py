"""How snapshots are shown: as JSON, as a list, and as one bar a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from cdc.lsn import format_lsn

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from snapshots.status import Standing, TableStanding

_STYLES: Final = {"complete": "green", "running": "cyan", "failed": "red", "interrupted": "red"}
_BAR_WIDTH: Final = 24


def describe(found: Standing) -> dict[str, Any]:
    """A JSON object: LSNs as PostgreSQL writes them, times in UTC, rates in rows a second."""
    return {
        "id": found.id,
        "kind": found.kind,
        "status": found.status,
        "lsn": None if found.lsn is None else format_lsn(found.lsn),
        "points": [format_lsn(lsn) for lsn in found.points],
        "started_at": found.started_at.isoformat(),
        "finished_at": found.finished_at.isoformat() if found.finished_at else None,
        "rows": found.rows,
        "dead_letters": found.dead_letters,
        "options": found.options,
        "error": found.error,
        "tables": [
            {
                "table": table.label,
                "topic": table.topic,
                "rows": table.rows,
                "dead_letters": table.dead_letters,
                "estimated_rows": table.estimated_rows,
                "chunks": table.chunks,
                "chunks_done": table.done,
                "share": round(table.share, 4),
                "finished": table.finished,
                "rows_s": None if table.rows_s is None else round(table.rows_s, 1),
                "left_s": None if table.left_s is None else round(table.left_s, 1),
            }
            for table in found.tables
        ],
    }


def overview(found: Sequence[Standing]) -> Table:
    """One line a snapshot."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    for title in ("id", "kind", "status", "LSN", "tables"):
        grid.add_column(title, overflow="fold")
    grid.add_column("rows", justify="right")
    grid.add_column("begun (UTC)", no_wrap=True)
    for one in found:
        asked = map(_label, one.options.get("tables", []))
        labels = [table.label for table in one.tables] or list(asked)
        grid.add_row(
            str(one.id),
            one.kind.replace("_", " "),
            Text(one.status, _STYLES.get(one.status, "")),
            "-" if one.lsn is None else format_lsn(one.lsn),
            Text(", ".join(labels)),
            f"{one.rows:,}",
            f"{one.started_at:%Y-%m-%d %H:%M}",
        )
    return grid


def _label(pattern: str) -> str:
    """``schema.table`` of a pattern that is quoted to choose one table."""
    return pattern.removeprefix('"').removesuffix('"').replace('"."', ".").replace('""', '"')


def progress(found: Standing) -> Iterator[RenderableType]:
    """A headline and a bar for every table."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    headline = Text(f"snapshot {found.id}: ")
    headline.append(found.status, _STYLES.get(found.status, ""))
    if found.lsn is not None:
        headline.append(f", as of {', '.join(map(format_lsn, found.points))}")
    yield headline
    if found.error:
        yield Text(found.error, "red")
    grid = Table(box=None, pad_edge=False)
    grid.add_column("table", overflow="fold")
    grid.add_column("")
    for title in ("", "rows", "rows/s", "left"):
        grid.add_column(title, justify="right", no_wrap=True)
    for table in found.tables:
        bar = ProgressBar(total=1.0, completed=table.share, width=_BAR_WIDTH)
        grid.add_row(Text(table.label), bar, f"{table.share:.0%}", f"{table.rows:,}", *_pace(table))
    yield grid
    for table in found.tables:
        if table.dead_letters:
            yield Text(
                f"{table.label}: {table.dead_letters:,} rows were too large for Kafka and are dead "
                "letters: headwater dead-letters list",
                "yellow",
            )


def _pace(table: TableStanding) -> tuple[str, str]:
    rate = "" if table.rows_s is None else f"{table.rows_s:,.0f}"
    if table.left_s is None:
        return rate, "done" if table.finished else ""
    minutes, seconds = divmod(round(table.left_s), 60)
    hours, minutes = divmod(minutes, 60)
    return rate, f"{hours}:{minutes:02}:{seconds:02}"
