"""How the report of ``headwater verify`` is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdc.lsn import format_lsn
from cdc.plural import plural

if TYPE_CHECKING:
    from rich.console import Console

    from verification.report import Difference, Report


def document(report: Report) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "view": report.view,
        "equal": report.equal,
        "lsn": format_lsn(report.lsn),
        "source_rows": report.source_rows,
        "view_rows": report.view_rows,
        "rows_read": report.rows_read,
        "missing": report.missing,
        "extra": report.extra,
        "different": report.different,
        "repaired": report.repaired,
        "beyond_repair": report.beyond_repair,
        "awaiting": report.awaiting,
        "undecided": report.undecided,
        "parked": report.parked,
        "parked_keys_of_tables": report.waiting,
        "rounds": report.rounds,
        "seconds": round(report.seconds, 3),
        "differences": [_difference(item) for item in report.differences],
    }


def _difference(item: Difference) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "key": {name: _plain(value) for name, value in item.key.items()},
        "columns": {
            name: {"source": _plain(source), "view": _plain(view)}
            for name, (source, view) in item.columns.items()
        },
    }


def _plain(value: Any) -> Any:
    """A canonical value as JSON has it."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def show(report: Report, console: Console, by_state: bool = False) -> None:
    """The report for people: what differs first, the sum last. ``by_state``: of a view that is kept
    over mirrors in the state database."""
    from rich.table import Table
    from rich.text import Text

    found = report.wrong
    if report.differences:
        grid = Table("row", "key", "column", "source", "view")
        for item in report.differences:
            key = ", ".join(f"{name}={_plain(value)!r}" for name, value in item.key.items())
            lines = list(item.columns.items()) or [("", ("", ""))]
            for name, (source, view) in lines:
                shown = (repr(_plain(value)) if name else "" for value in (source, view))
                grid.add_row(item.kind, Text(key), Text(name), *(Text(text) for text in shown))
        console.print(grid)
        if found > len(report.differences):
            console.print(f"… and {found - len(report.differences):,} more")
    if report.undecided:
        console.print(
            f"{plural(report.undecided, 'row was', 'rows were')} newer than the source in "
            "every round: run it again when less changes, or rebuild the view when nothing does",
            style="yellow",
        )
    if report.parked:
        console.print(
            f"{plural(report.parked, 'row is', 'rows are')} parked: events that could not be "
            f"applied wait in the view's dead letters: headwater dead-letters list {report.view}",
            style="yellow",
        )
    if report.waiting:
        console.print(
            f"of its tables {plural(report.waiting, 'key is', 'keys are')} parked: rows that "
            "differ may be made of their last good versions: "
            f"headwater dead-letters list {report.view}",
            style="yellow",
        )
    if report.beyond_repair:
        first = "once no key is parked, " if report.waiting else ""
        refill = " --refill" if by_state else ""
        console.print(
            f"{plural(report.beyond_repair, 'row still differs', 'rows still differ')}: "
            "the view's mirrors of its tables differ from the tables: "
            f"{first}run `headwater view rebuild {report.view}{refill}`",
            style="red",
        )
    if report.awaiting:
        console.print(
            f"not yet written again: {plural(report.awaiting, 'row')}. `headwater apply"
            f" {report.view}` writes what is left as soon as it runs; then verify once more",
            style="yellow",
        )
    left = found - report.repaired
    verdict = plural(left, "row differs", "rows differ") if left else "not decided"
    if report.parked and not left and not report.undecided:
        verdict = f"{plural(report.parked, 'row')} parked, the others equal"
    if report.equal:
        verdict = "repaired" if found else "equal"
    repaired = f", repaired {report.repaired:,}" if report.repaired else ""
    rows = f"the source has {plural(report.source_rows, 'row')} and the view {report.view_rows:,}"
    console.print(
        f"{report.view}: {verdict} at LSN {format_lsn(report.lsn)}, where {rows}; "
        f"missing {report.missing:,}, extra {report.extra:,}, "
        f"different {report.different:,}{repaired}; {plural(report.rounds, 'round')}, "
        f"{report.seconds:.1f} s",
        style="green" if report.equal else "red",
        soft_wrap=True,
    )
