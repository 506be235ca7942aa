"""``headwater init``: publication, slot, topics and the initial snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.errors import UsageError
from cdc.lsn import format_lsn
from headwater.cli.common.context import captured
from headwater.cli.common.output import err, out, print_json
from headwater.cli.common.row_counts import tell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from cdc.config import Config
    from headwater.cli.init.role_script import Roles
    from headwater.cli.init.steps import Outcome


PrintSqlOption = Annotated[
    bool,
    typer.Option(
        "--print-sql",
        help="Print the SQL that creates roles, rights, schema and publication, for a DBA to run."
        " Changes nothing, and needs no right but to connect.",
    ),
]
NoSnapshotOption = Annotated[
    bool,
    typer.Option("--no-snapshot", help="Skip the snapshot: capture only changes from now on."),
]
AgainOption = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Take a new snapshot, for example after a lost slot. Stop capture first.",
    ),
]
MovedOption = Annotated[
    bool,
    typer.Option(
        "--moved",
        help="With --again: the database is in another cluster now, as after pg_upgrade.",
    ),
]
TakePublicationOption = Annotated[
    bool,
    typer.Option(
        "--take-publication",
        help="Alter the publication that source.publication names, if it exists and does not fit"
        " source.tables: add and drop tables, set its options.",
    ),
]
RoleOption = Annotated[
    str,
    typer.Option(
        metavar="ROLE",
        help="With --print-sql: the role that captures, or writes to the store. Default: that of"
        " its dsn.",
    ),
]
PublicationOwnerOption = Annotated[
    str,
    typer.Option(
        metavar="ROLE",
        help="With --print-sql: who owns the publication. Default: the role that captures.",
    ),
]
StoreOption = Annotated[
    str,
    typer.Option(
        metavar="STORE",
        help="With --print-sql: print what the role of this PostgreSQL store needs, instead.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command(name="init")(init)


def init(
    ctx: typer.Context,
    no_snapshot: NoSnapshotOption = False,
    again: AgainOption = False,
    moved: MovedOption = False,
    take_publication: TakePublicationOption = False,
    ddl_events: Annotated[
        bool | None,
        typer.Option(
            "--ddl-events/--no-ddl-events",
            help="Install or remove the trigger that reports DDL, as a superuser. If the schema"
            " headwater belongs to another role, init does nothing else.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    print_sql: PrintSqlOption = False,
    role: RoleOption = "",
    publication_owner: PublicationOwnerOption = "",
    store: StoreOption = "",
) -> None:
    """Set up the source and Kafka for capture, and take the initial snapshot.

    Runs `headwater check` first. Then creates the schema headwater, the publication, the topics
    and the replication slot, and publishes every row of the captured tables as of the slot's first
    LSN. If it is interrupted, run it again: it resumes where it stopped. On a source that is set
    up it only migrates the schema headwater.

    \b
    Examples:
      headwater init
      headwater init --again            after a lost replication slot
      headwater init --again --moved    after pg_upgrade
      headwater init --print-sql --role headwater --publication-owner app_owner
      headwater init --print-sql --store reports
    """
    from cdc.capture.memory_allocator import keep_freed_memory
    from headwater.cli.init.role_script import Roles
    from headwater.cli.init.steps import initialise

    config = captured(ctx)
    if printed(config, print_sql, Roles(role, publication_owner), store):
        return
    if moved and not again:
        raise UsageError("--moved takes a new snapshot", "add --again")
    keep_freed_memory()
    display = Display(err())
    try:
        if ddl_events is not None and runs_for_another(config):
            tell_of_ddl(config, display, ddl_events)
            return
        outcome = initialise(
            config,
            display,
            with_rows=not no_snapshot,
            again=again,
            moved=moved,
            take_publication=take_publication,
        )
        if ddl_events is not None:
            tell_of_ddl(config, display, ddl_events)
    finally:
        display.close()
    if as_json:
        print_json(describe(outcome))
    else:
        show(outcome, out())


def printed(config: Config, wanted: bool, roles: Roles, store: str = "") -> bool:
    """Print what a DBA runs, if that is wanted; whether it was. Raises ``HeadwaterError``."""
    from cdc.errors import UsageError
    from headwater.cli.init.role_script import role_script
    from headwater.cli.init.store_script import store_script

    if (any(roles) or store) and not wanted:
        hint = "add --print-sql, or leave them out"
        raise UsageError("--role, --publication-owner and --store are for --print-sql", hint)
    if store and roles.publication_owner:
        raise UsageError("a store has no publication", "leave --publication-owner or --store out")
    if wanted:
        script = store_script(config, store, roles.capture) if store else role_script(config, roles)
        for line in list(script):  # all or nothing
            typer.echo(line)
    return wanted


def runs_for_another(config: Config) -> bool:
    """Whether source.dsn is a superuser's, and what capture needs is another role's affair."""
    from cdc.source.postgres import connect
    from cdc.source.schema_owner import lesser_owner

    with connect(config.source.dsn, application_name="headwater init") as conn:
        return bool(lesser_owner(conn))


def tell_of_ddl(config: Config, observer: Display, wanted: bool) -> None:
    """Install the trigger that tells of DDL, or remove it. Raises ``SourceError``."""
    from cdc.source.postgres import connect
    from migrations.ddl_events import set_ddl_events

    with connect(config.source.dsn, application_name="headwater init") as conn:
        set_ddl_events(conn, wanted)
    observer.step(f"DDL events {'installed' if wanted else 'removed'}")


def describe(outcome: Outcome) -> dict[str, object]:
    """The outcome as a JSON object."""
    return {
        "created": outcome.created,
        "slot": outcome.slot,
        "publication": outcome.publication,
        "consistent_point": format_lsn(outcome.consistent_point),
        "topics": outcome.topics,
        "rows": outcome.rows,
        "dead_letters": outcome.dead_letters,
    }


def show(outcome: Outcome, console: Console) -> None:
    """The outcome as a table."""
    from rich.table import Table as Grid

    grid = Grid(title="set up" if outcome.created else "already set up")
    grid.add_column("what")
    grid.add_column("name", overflow="fold")
    grid.add_column("rows", justify="right")
    grid.add_row("slot", f"{outcome.slot} at {format_lsn(outcome.consistent_point)}", "")
    grid.add_row("publication", outcome.publication, "")
    for topic in outcome.topics:
        grid.add_row("topic", topic, "")
    for table, rows in outcome.rows.items():
        grid.add_row("rows read", table, f"{rows:,}")
    for table, rows in outcome.dead_letters.items():
        grid.add_row("dead letters", table, f"{rows:,}")
    console.print(grid)
    if outcome.created:
        console.print("next: headwater capture")


class Display:
    """Steps as lines, the snapshot as one progress bar a table, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._read, self._expected = 0, 0

    def step(self, what: str) -> None:
        self._console.print(what, markup=False)

    def tables(self, expected: dict[str, int]) -> None:
        from rich import progress

        self.close()  # a later round begins again
        self._read, self._expected = 0, sum(expected.values())
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TextColumn("{task.completed:,} rows"),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks = {
            name: self._progress.add_task(name, total=rows or None, start=False, rate="")
            for name, rows in expected.items()
        }
        self._progress.start()

    def rows(self, label: str, count: int) -> None:
        self._read += count
        tell(self._read, self._expected)
        if self._progress is None:
            return
        task_id = self._tasks[label]
        task = self._progress.tasks[task_id]
        if not task.started:
            self._progress.start_task(task_id)
        rate = f"{task.speed:,.0f}/s" if task.speed else ""
        self._progress.update(task_id, advance=count, rate=rate)

    def table_read(self, label: str, rows: int) -> None:
        if self._progress is not None:
            self._progress.update(self._tasks[label], total=rows, completed=rows)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._progress is not None:
            self._progress.stop()
