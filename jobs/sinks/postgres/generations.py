"""The generations of a view in PostgreSQL: tables, and one view that people read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cdc.config import Postgres
from cdc.errors import ViewError
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.batch_writer import with_keys, write_rows
from jobs.sinks.contract import Live
from jobs.sinks.postgres.client import Action, Connection, Database, refusing_rows
from jobs.sinks.postgres.copy_lines import LIVE, CopyRow, copy_list, copy_rows
from jobs.sinks.postgres.quoting import ident
from jobs.sinks.postgres.relations import held, live_generation, make, make_schema, run, show
from jobs.sinks.postgres.sink import copy_in
from jobs.sinks.postgres.table import ViewTable, columns_of, table_name
from jobs.sinks.row_errors import RowsError, raise_together
from jobs.sinks.rows import Rows, write_each

_T = TypeVar("_T")


class PostgresGenerations:
    """``jobs.sinks.contract.Generations`` of one view in one schema."""

    def __init__(self, config: Postgres, view: str, retry_s: float) -> None:
        self._schema, self._view = config.target_schema, view
        self._database = Database(config.dsn, retry_s)
        self._name = partial(table_name, view)

    def live(self) -> Live | None:
        number = self._call(lambda conn: live_generation(conn, self._schema, self._view))
        return None if number is None else Live(number, "")

    def load(
        self,
        number: int,
        rows: DataFrame | Iterable[Rows],
        columns: StructType,
        key: tuple[str, ...],
    ) -> None:
        self.drop(number)
        table = ViewTable(self._schema, self._name(number), columns, key)
        self._call(lambda conn: make_schema(conn, self._schema))
        self._call(lambda conn: make(conn, table, self._view, indexed=False))
        loader = PostgresLoader(self._database, self._view, table)
        if isinstance(rows, DataFrame):
            lines = copy_rows(columns, key, loading=True)(rows)
            write_rows(lines, FEW_ROWS + 1, copy_list, loader)
        else:
            write_each(self._view, rows, loader.finished)
        self._call(partial(_finish, table))

    def switch(self, number: int, mark: str = "") -> None:  # noqa: ARG002
        self._call(partial(self._switch, number))

    def _switch(self, number: int, conn: Connection) -> None:
        name = self._name(number)
        found = held(conn, self._schema, name)
        if found is None or found.document.get("headwater_view") != self._view:
            raise ViewError(
                f"view {self._view}: PostgreSQL has no table {self._schema}.{name} of it",
                f"run `headwater view rebuild {self._view}`",
            )
        live_generation(conn, self._schema, self._view)  # refuses what is somebody else's
        table = ViewTable(self._schema, name, columns_of(found.document), ())
        show(conn, table, self._view, number)

    def drop(self, number: int) -> None:
        self._call(partial(self._drop, number))

    def _drop(self, number: int, conn: Connection) -> None:
        name = self._name(number)
        if live_generation(conn, self._schema, self._view) == number:
            run(conn, [f"drop view {ident(self._schema)}.{ident(self._view)}"])
        found = held(conn, self._schema, name)
        if found is None:
            return
        if found.document.get("headwater_view") != self._view:
            raise ViewError(
                f"view {self._view}: PostgreSQL has a table {self._schema}.{name} that does not "
                "belong to this view",
                "rename the view, or give the store another target_schema",
            )
        run(conn, [f"drop table {ident(self._schema)}.{ident(name)}"])

    def close(self) -> None:
        self._database.release(self._view)

    def _call(self, action: Action[_T]) -> _T:
        return self._database.call(self._view, action)


def _finish(table: ViewTable, conn: Connection) -> None:
    """Index what was loaded, and count it for the planner."""
    with refusing_rows(conn) as fault:
        run(conn, table.index())
    if fault.error is not None:
        run(conn, [table.without_doubles(), *table.index()])
    run(conn, [f"analyze {table.full_name}"])


@dataclass(frozen=True, slots=True)
class PostgresLoader:
    """Fills a new table from any process."""

    database: Database
    view: str
    table: ViewTable

    def finished(self, rows: list[CopyRow]) -> None:
        """The same of lines for batches, which say at their end that the row is live and whole."""
        self([row._replace(line=row.line.removesuffix(LIVE)) for row in rows])

    def __call__(self, rows: list[CopyRow]) -> None:
        errors: list[RowsError] = []
        keyed = with_keys(self.view, rows, errors)
        copy = partial(copy_in, statement=self.table.load(), rows=keyed)
        self.database.call(self.table.full_name, copy)
        raise_together(errors)
