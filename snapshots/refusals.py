"""What stops a snapshot on demand, found before anything is made. Each says the way out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from cdc.config import Config, Source
from cdc.errors import SourceError
from cdc.events.form import Form, told
from cdc.events.marks import Mark
from cdc.lag.slot_activity import slot_activity
from cdc.lag.wal_forecast import wal_forecast, written
from cdc.source.catalog import captured_tables
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect, identifier, literal
from cdc.source.selection import Table
from cdc.source.table_lookup import PARTITION_TREE
from cdc.source.types import load_types
from snapshots import state
from snapshots.plan import Bounds, plan_table
from snapshots.rate import parse_rate
from snapshots.status import Standing, snapshot

_SERVER = """
select pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('wal_level'),
       pg_catalog.current_setting('max_replication_slots')::int,
       (select count(*) from pg_catalog.pg_replication_slots),
       pg_catalog.current_setting('max_wal_senders')::int,
       (select count(*) from pg_catalog.pg_stat_replication)
"""
_PUBLISHED = """
select schemaname, tablename from pg_catalog.pg_publication_tables where pubname = %s
"""

_SHORT_S: Final = 60.0
"""What is read sooner is not asked about."""
_BETWEEN_S: Final = 3.0
_FASTER: Final = "read faster (--rate, or snapshot.rate)"
_BEGUN: Final = "cancel it and begin another one that reads faster, for it keeps its rate"
_SIZES: Final = f"""{PARTITION_TREE}
select coalesce(sum(greatest(c.reltuples, 0)), 0)::float8,
       coalesce(sum(pg_catalog.pg_table_size(c.oid)), 0)::float8
from tree join pg_catalog.pg_class c on c.oid = tree.oid and c.relkind <> 'p'
"""


def refuse_unfit(conn: Connection, source: Source, names: Sequence[str]) -> list[Table]:
    """The tables that ``names`` choose. Raises ``SourceError`` with whatever speaks against it."""
    refuse_server(conn)
    refuse_uninitialised(conn, source.name)
    wanted = source.model_copy(update={"tables": tuple(names), "exclude": ()})
    tables = captured_tables(conn, wanted, setting="")
    with translated(f"reading publication {source.publication_name}"):
        published = set(conn.execute(_PUBLISHED, (source.publication_name,)).fetchall())
    missing = [table.label for table in tables if (table.schema, table.name) not in published]
    if missing:
        raise SourceError(
            f"{', '.join(missing)} is not in publication {source.publication_name}, so its "
            "changes are not captured",
            "add it to source.tables, then run `headwater table add`",
        )
    return tables


def refuse_outliving(
    conn: Connection,
    config: Config,
    tables: Sequence[Table],
    rate: str | None,
    left: Mapping[str, float] = MappingProxyType({}),
    risk: str = "--despite-forecast",
) -> None:
    """Look at the source twice, and raise ``SourceError`` if the slot is lost, or the volume of its
    WAL full, before ``tables`` are read at ``rate``, should it write WAL as it does now.

    A snapshot has a slot of its own, which keeps all of it while rows of one LSN are read: for
    ``snapshot.max_age_s`` at most. ``left`` says by a table's label how much of it is still to be
    read, from 0 to 1; of others all is. ``risk`` is the way past the refusal."""
    needed_s = _seconds(conn, tables, left, *parse_rate(rate or config.snapshot.rate))
    if needed_s < _SHORT_S:
        return
    slot, volume = config.source.slot_name, config.alerts.wal_volume_bytes
    first = slot_activity(conn, slot).on_volume(volume)
    if first.safe_wal_size is None and first.volume_free_bytes is None:
        return
    time.sleep(_BETWEEN_S)
    second = slot_activity(conn, slot).on_volume(volume)
    end = wal_forecast(second, written(first, second)).first
    if end is not None and min(needed_s, config.snapshot.max_age_s) > end[0]:
        raise SourceError(
            f"the snapshot takes about {needed_s:,.0f} s, and at the rate at which the source "
            f"writes WAL now {end[1]} in {end[0]:,.0f} s",
            f"{_BEGUN if left else _FASTER}, start when less is written, give WAL more room on the "
            f"source (max_slot_wal_keep_size, or the volume itself), or take the risk with {risk}",
        )


def refuse_rest_outliving(config: Config, snapshot_id: int) -> None:
    """The same of what is left of a snapshot that was paused, failed or killed, at its own rate."""
    source = config.source
    with connect(source.dsn, application_name="headwater snapshot") as conn:
        found = snapshot(conn, source.name, snapshot_id)
        if found.kind == "initial" or found.status in ("complete", "cancelled"):
            return
        names = {"tables": tuple(found.options["tables"]), "exclude": ()}
        tables = captured_tables(conn, source.model_copy(update=names))
        left = {one.label: 1 - one.share for one in found.tables}
        refuse_outliving(conn, config, tables, found.options["rate"], left)


def _seconds(
    conn: Connection,
    tables: Sequence[Table],
    left: Mapping[str, float],
    rows_s: float,
    bytes_s: float,
) -> float:
    """Without a rate nobody knows: as if no time at all."""
    rows, size = 0.0, 0.0
    for table in tables:
        with translated(f"reading the size of {table.label}"):
            row = conn.execute(_SIZES, {"oid": table.oid}).fetchone()
        assert row is not None
        share = left.get(table.label, 1.0)
        rows, size = rows + share * row[0], size + share * row[1]
    return max(rows / rows_s, size / bytes_s)


def refuse_bounds(
    conn: Connection, source: Source, tables: Sequence[Table], bounds: Bounds
) -> None:
    """Raise ``SourceError`` for bounds that PostgreSQL cannot apply to one of the tables."""
    if bounds == Bounds():
        return
    with conn.transaction(force_rollback=True):
        types = load_types(conn)
        for table in tables:
            plan = plan_table(conn, table, types, source, "", bounds)
            if bounds.key_range is not None:
                _refuse_empty_range(conn, table, plan.relation.key[0], bounds.key_range)


def _refuse_empty_range(
    conn: Connection, table: Table, column: str, key_range: tuple[str | None, str | None]
) -> None:
    """No row is in it. The union gives both ends the column's type, and its collation."""
    low, high = key_range
    if low is None or high is None:
        return
    name = f"{identifier(table.schema)}.{identifier(table.name)}"
    ends = [
        f"(select c from (select {identifier(column)} as c from {name} where false"
        f" union all select {literal(end)}) one)"
        for end in (low, high)
    ]
    with translated("looking at --key-range"):
        row = conn.execute(f"select {ends[0]} >= {ends[1]}".encode()).fetchone()
    if row == (True,):
        raise SourceError(
            f"--key-range {low}:{high} is empty for {table.label}: it means LO <= key < HI, and "
            f"{low} is not below {high}",
            "write the lower bound first",
        )


def refuse_uninitialised(conn: Connection, source: str) -> None:
    """Raise ``SourceError`` when nothing streams that a snapshot could be joined with."""
    state.refuse_older_schema(conn)
    initial = state.read_state(conn, source)
    if initial is None or not initial.complete:
        raise SourceError(
            f"source {source} has no complete initial snapshot, so nothing is captured",
            "run `headwater init`, which reads all of source.tables",
        )


def refuse_server(conn: Connection) -> None:
    """Raise ``SourceError`` when the server cannot make one more slot."""
    with translated("looking at the server's settings"):
        row = conn.execute(_SERVER).fetchone()
    assert row is not None
    standby, wal_level, slots, slots_used, senders, senders_used = row
    if standby:
        raise SourceError(
            "the server is a standby, and a snapshot must write to the schema headwater",
            "name the primary in source.dsn",
        )
    if wal_level != "logical":
        raise SourceError(
            f"wal_level is {wal_level}: no logical slot can be created",
            "set wal_level = logical in postgresql.conf and restart PostgreSQL",
        )
    if slots_used >= slots:
        raise SourceError(
            f"all {slots} replication slots are taken, and a snapshot needs one while it starts",
            "raise max_replication_slots, or drop one that is not needed "
            "(SELECT slot_name, active FROM pg_replication_slots)",
        )
    if senders_used >= senders:
        raise SourceError(
            f"all {senders} WAL senders are taken, and a snapshot needs one while it starts",
            "raise max_wal_senders, or stop a replication client that is not needed",
        )


def begun_form(config: Config, found: Standing, mark: Mark) -> Form:
    """The form in which the snapshot's rows were begun, whatever the configuration says by now.
    Raises ``SourceError`` where the source's topics have been begun anew in another one."""
    recorded = found.options.get("form", {})
    way_out = f"run `headwater snapshot cancel {found.id}` and start another one"
    if recorded != dict(mark.form):
        raise SourceError(
            f"snapshot {found.id} was begun with {told(recorded)} in [events], and the topics of "
            f"source {config.source.name} have {told(mark.form)} by now",
            way_out,
        )
    try:
        form = config.form.as_recorded(recorded)
    except ValueError as error:
        raise SourceError(f"snapshot {found.id}: {error}", way_out) from None
    # Topics of their own, which nobody else reads, have no subjects in a registry.
    return form if found.joining else replace(form, format="json")
