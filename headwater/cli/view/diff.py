"""``headwater view diff``: what a view's declared SQL shows beside what is live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cdc.errors import RetryableError, UsageError
from headwater.cli.common.context import configured, declared
from headwater.cli.common.output import out, print_json

if TYPE_CHECKING:
    from cdc.config import Config
    from verification.rows_compared import RowsCompared


class ViewDifference(NamedTuple):
    """``rows`` compares the live generation's SQL with the declared one."""

    view: str
    live: int
    rows: RowsCompared
    new_columns: tuple[str, ...]
    lost_columns: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return self.rows.equal and not self.new_columns and not self.lost_columns


def diff(
    ctx: typer.Context,
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    keys: Annotated[
        int,
        typer.Option("--keys", metavar="N", min=0, max=1_000, help="Keys of rows to show."),
    ] = 10,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, help="Seconds it may take.")
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which rows `view rebuild` would change: the declared SQL beside that of the live
    generation.

    Both are computed from the mirrors in the state database, as they are now, in one snapshot; the
    store is not read, and nothing is built or changed. It takes about as long as a rebuild without
    its writing. Needs a running `headwater apply`. Views with apply.engine = "delta" or mirror =
    false have no mirrors, histories have no current rows: neither can be compared.

    Keys that hold NULL, and keys of several rows, are counted: a rebuild refuses them.

    Exit codes: 0 rows and columns are the same, 1 they differ, or have such keys.

    \b
    Example:
      headwater view diff open_orders --keys 20
    """
    found = compared(configured(ctx), view, keys, timeout)
    if as_json:
        print_json(document(found))
    else:
        for line in said(found):
            out().print(line, soft_wrap=True, markup=False)
    if not found.equal:
        raise typer.Exit(1)


def compared(config: Config, name: str, keys: int, timeout_s: float) -> ViewDifference:
    """Raises ``UsageError`` for a view that cannot be compared, ``RetryableError`` where the state
    database does not run, ``ViewError`` for SQL of which no view can be made."""
    from headwater.cli.view.state_views import AWAY, planned
    from jobs.run.views.view_plan import relation_of
    from jobs.state.views.generation_keys import live_record
    from jobs.state.views.view_status import state_session
    from verification.rows_compared import compare
    from verification.view_facts import is_kept_by_state

    view = declared(config, name)
    if not is_kept_by_state(config, name):
        raise UsageError(
            f"view {name} is not kept over mirrors in the state database",
            "build it with `headwater view rebuild --hold`, and compare the two in its store",
        )
    if view.history:
        raise UsageError(f"view {name} is a history", "only views of current rows are compared")
    with state_session(config) as conn:
        if conn is None:
            raise RetryableError(AWAY, "run `headwater apply`, which starts it")
        record = live_record(conn, config, name)
        if record is None:
            raise UsageError(
                f"view {name} was not built yet", f"run `headwater view create {name}`"
            )
        if tuple(view.key) != record.key:
            raise UsageError(
                f"view {name}: its declared key is {', '.join(view.key)}, that of the live "
                f"generation {', '.join(record.key)}",
                "rows can be compared by one key only",
            )
        built = view.model_copy(update={"sql": record.sql, "key": record.key})
        live = planned(conn, name, built, record)
        new = planned(conn, name, view)
        key, before, after = record.key, live.plan.columns, new.plan.columns
        both = [one for one in before if one in after and one not in key]
        rows = compare(
            conn,
            name,
            live.plan.whole(lambda table: live.names.reading(table, relation_of(table))),
            new.plan.whole(lambda table: new.names.reading(table, relation_of(table))),
            key,
            both,
            keys,
            timeout_s,
        )
    return ViewDifference(
        name,
        record.generation,
        rows,
        tuple(one for one in after if one not in before),
        tuple(one for one in before if one not in after),
    )


def document(found: ViewDifference) -> dict[str, Any]:
    """As JSON."""
    rows = found.rows
    return {
        "view": found.view,
        "live": found.live,
        "equal": found.equal,
        "live_rows": rows.rows,
        "declared_rows": rows.other_rows,
        "added": rows.added,
        "removed": rows.removed,
        "changed": rows.changed,
        "live_unfit_keys": rows.unfit,
        "declared_unfit_keys": rows.other_unfit,
        "columns": dict(rows.columns),
        "new_columns": list(found.new_columns),
        "lost_columns": list(found.lost_columns),
        "keys": [dict(one) for one in rows.keys],
    }


def said(found: ViewDifference) -> list[str]:
    """Lines for people: counts, columns, then some keys."""
    rows = found.rows
    lines = [
        f"{found.view}: generation {found.live} has {rows.rows:,} rows, the declared SQL "
        f"{rows.other_rows:,}: {rows.added:,} added, {rows.removed:,} removed, "
        f"{rows.changed:,} changed"
    ]
    for whose, unfit in (("live", rows.unfit), ("declared", rows.other_unfit)):
        if unfit:
            lines.append(
                f"{unfit:,} keys of the {whose} SQL hold NULL or are those of several rows: no "
                "view can be built so, and the counts above are not exact"
            )
    if rows.columns:
        counts = ", ".join(f"{name} ({count:,} rows)" for name, count in rows.columns.items())
        lines.append(f"columns that change: {counts}")
    for what, columns in (("new", found.new_columns), ("lost", found.lost_columns)):
        if columns:
            lines.append(f"{what} columns: {', '.join(columns)}")
    for one in rows.keys:
        key = " ".join(f"{name}={value}" for name, value in one["key"].items())
        lines.append(f"  {one['kind']:8} {key}")
    if (more := rows.added + rows.removed + rows.changed - len(rows.keys)) > 0:
        lines.append(f"  … {more:,} more; `--keys N` shows more keys")
    return lines
