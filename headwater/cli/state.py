"""``headwater state``: what the state database holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.errors import UsageError
from cdc.lsn import format_lsn
from headwater.cli.common.context import configured
from headwater.cli.common.format import size
from headwater.cli.common.output import out, print_json
from headwater.cli.view.state_views import AWAY, known_state

if TYPE_CHECKING:
    from rich.table import Table

    from cdc.config import Config
    from jobs.state.server.connection import Connection

Document = dict[str, Any]


def register(app: typer.Typer) -> None:
    app.command(name="state")(state)


def state(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the state database: location, size, mirrors, and pending work of views.

    With apply.engine = "database" it holds a mirror of every table that views read and, for each
    view, the keys whose rows are to be recomputed. The embedded database runs only while
    `headwater apply` runs.

    \b
    Example:
      headwater state --json
    """
    config = configured(ctx)
    if config.apply.engine != "database":
        raise UsageError(
            'there is no state database: apply.engine is not "database"',
            'set apply.engine = "database" in headwater.toml, then start `headwater apply`',
        )
    found = gathered(config)
    if as_json:
        print_json(found)
        return
    console = out()
    for line in _lines(found):
        console.print(line, soft_wrap=True, markup=False)
    for grid in (_mirrors(found), _views(found)):
        if grid.row_count:
            console.print()
            console.print(grid)


def gathered(config: Config) -> Document:
    """All of it as JSON; sizes in bytes, LSNs as PostgreSQL writes them."""
    found: Document = {"place": _place(config), "running": False, "kept_by": None}
    found |= {"version": None, "size_bytes": None, "batch": None, "lsn": None}
    found |= {"applied_at": None, "committed_at": None, "mirrors": [], "views": [], "commands": []}
    found |= _files(config)
    with known_state(config) as conn:
        return found if conn is None else found | _held(conn)


def _place(config: Config) -> str | None:
    from jobs.state.server.connection import shown_place
    from jobs.state.server.location import home_of, recorded_place

    if config.apply.state_dsn:
        return shown_place(config.apply.state_dsn)
    place = recorded_place(home_of(config.apply.state, config.source.name))
    return str(place.directory) if place else None


def _files(config: Config) -> Document:
    """What the files of the embedded one tell, also while it does not run."""
    from jobs.state.server.status import state_status

    if (status := state_status(config)) is None:
        return {}
    return {"version": status.version, "size_bytes": status.size_bytes}


def _held(conn: Connection) -> Document:
    from jobs.state.mirrors.mirror_record import read_mirrors, sizes
    from jobs.state.server.apply_lock import database_holder

    fills = {label: one.fill_lsn for label, one in read_mirrors(conn).items()}
    row = conn.execute(
        "select p.batch, p.lsn, p.applied_at, p.committed_at, "
        "pg_catalog.current_setting('server_version'), "
        "pg_catalog.pg_database_size(pg_catalog.current_database()) from headwater.progress p"
    ).fetchone()
    assert row is not None, "the migrations write it"
    batch, lsn, applied_at, committed_at, version, bytes_ = row
    return {
        "running": True,
        "kept_by": database_holder(conn) or None,
        "version": version,
        "size_bytes": bytes_,
        "batch": batch,
        "lsn": format_lsn(lsn),
        "applied_at": applied_at.isoformat(timespec="milliseconds"),
        "committed_at": committed_at and committed_at.isoformat(timespec="milliseconds"),
        "mirrors": [
            {
                "table": one.label,
                "rows": one.rows,
                "bytes": one.table_bytes + one.index_bytes,
                "filled_at_lsn": format_lsn(fills[one.label]),
                "state": one.state,
                "reason": one.reason or None,
            }
            for one in sizes(conn)
        ],
        "views": _of_views(conn),
        "commands": _commands(conn),
    }


def _of_views(conn: Connection) -> list[Document]:
    from jobs.state.dead_letters.parked_keys import count_parked
    from jobs.state.views.view_record import view_records

    found = []
    for one in view_records(conn):
        (dirty,) = conn.execute(f"select count(*) from dirty.v{one.id}".encode()).fetchone() or (0,)
        found.append(
            {
                "view": one.name,
                "generation": one.generation,
                "state": one.state,
                "dirty_keys": dirty,
                "parked_keys": count_parked(conn, one),
                "error": one.error or None,
            }
        )
    return found


def _commands(conn: Connection) -> list[Document]:
    rows = conn.execute(
        "select kind, view, asked_at, taken_at is not null from headwater.commands "
        "where done_at is null order by id"
    )
    return [
        {"kind": kind, "view": view, "asked_at": at.isoformat(timespec="seconds"), "taken": taken}
        for kind, view, at, taken in rows
    ]


def _lines(found: Document) -> list[str]:
    if found["place"] is None:
        return ["there is no state database yet: `headwater apply` makes one"]
    told = f"PostgreSQL {found['version'] or '-'}, {size(found['size_bytes'])}"
    lines = [f"{found['place']}: {told}"]
    if not found["running"]:
        return [*lines, AWAY]
    lines.append(f"kept by {found['kept_by'] or 'no process'}")
    lines.append(f"batch {found['batch']:,}: what was committed up to {found['lsn']}")
    lines += [f"at work: {one['kind']} {one['view']}" for one in found["commands"]]
    return lines


def _mirrors(found: Document) -> Table:
    from rich.table import Table

    grid = Table("mirror", "rows", "bytes", "filled at", "state")
    for one in found["mirrors"]:
        why = f": {one['reason']}" if one["reason"] else ""
        grid.add_row(
            one["table"],
            f"{one['rows']:,}",
            size(one["bytes"]),
            one["filled_at_lsn"],
            f"{one['state']}{why}",
        )
    return grid


def _views(found: Document) -> Table:
    from rich.table import Table

    grid = Table("view", "generation", "state", "dirty keys", "parked", "fault")
    for one in found["views"]:
        grid.add_row(
            one["view"],
            str(one["generation"]),
            one["state"],
            f"{one['dirty_keys']:,}",
            f"{one['parked_keys']:,}",
            one["error"] or "-",
        )
    return grid
