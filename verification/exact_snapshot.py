"""A snapshot of the source at an exact LSN: that of a temporary replication slot."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc.config import Source
from cdc.errors import RetryableError
from cdc.source.catalog import relation
from cdc.source.columns.recorded_treatments import refuse_unrecorded
from cdc.source.columns.treated_columns import treated
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect, literal
from cdc.source.slot import create_slot
from cdc.source.table_lookup import table_files, table_of
from cdc.source.types import load_types
from verification.scope import tables_read
from verification.select_view import SEARCH_PATH, SelectView
from verification.source_rows import SourceSnapshot
from verification.values.treated_values import UNTREATED
from views.spark.view import View


@contextmanager
def source_at_new_lsn(
    dsn: str,
    view: View | SelectView,
    publication: str,
    timeout_s: float,
    on_wait: Callable[[str], None],
    statement_ms: int = 0,
    settings: Source | None = None,
) -> Iterator[SourceSnapshot]:
    """The source at an LSN of this moment; a transaction is open there until the block ends. No
    statement of it may take longer than ``statement_ms``, 0 for no limit. ``settings`` say how
    columns are treated; None: none is.

    Needs a free replication slot, for as long as it takes to import the snapshot. Raises
    ``SourceError`` when the slot cannot be created or the view's SQL fails.
    """
    name = f"headwater_verify_{secrets.token_hex(6)}"
    with connect(dsn, application_name="headwater verify") as conn:
        with (
            create_slot(dsn, name, temporary=True, timeout_s=timeout_s, on_wait=on_wait) as slot,
            translated("importing a snapshot"),
        ):
            conn.execute("begin isolation level repeatable read read only")
            if statement_ms:
                conn.execute(f"set local statement_timeout = {statement_ms}".encode())
            conn.execute(f"set transaction snapshot {literal(slot.snapshot_name)}".encode())
            if isinstance(view, SelectView):
                conn.execute(SEARCH_PATH)
        if settings is not None:
            _refuse_unrecorded(conn, view, settings)
        treatments = UNTREATED if settings is None else settings.treated
        source = SourceSnapshot(conn, slot.consistent_point, view, publication, treatments)
        _refuse_rewritten(conn, view)
        yield source


def _refuse_unrecorded(conn: Connection, view: View | SelectView, settings: Source) -> None:
    types = load_types(conn)
    for schema, table in tables_read(view):
        oid, _ = table_of(conn, schema, table)
        shape = relation(conn, oid, types, settings.publication_name, settings.keys)
        refuse_unrecorded(conn, settings, treated(conn, shape, settings))


def _refuse_rewritten(conn: Connection, view: View | SelectView) -> None:
    """To an older snapshot a table that was rewritten looks empty. From here on it is locked."""
    for schema, table in tables_read(view):
        oid, _ = table_of(conn, schema, table)
        then, now = table_files(conn, oid)
        if then != now:
            raise RetryableError(
                f"{schema}.{table} was rewritten while its snapshot was taken",
                "run `headwater verify` again",
            )
