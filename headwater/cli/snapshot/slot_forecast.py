"""Whether a snapshot would outlive the slot. A snapshot on demand has a slot of its own, which
keeps WAL while rows of one LSN are read (``snapshot.max_age_s`` at most), within the same limit
as that of capture."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from cdc.config import Config
from cdc.errors import SourceError
from cdc.lag.slot_activity import SlotActivity, slot_activity
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from snapshots.rate import parse_rate
from snapshots.refusals import refuse_unfit

_SHORT_S: Final = 60.0
"""What is read sooner is not asked about."""
_BETWEEN_S: Final = 3.0
_SIZES: Final = """
select coalesce(sum(greatest(c.reltuples, 0)), 0)::float8,
       coalesce(sum(pg_catalog.pg_table_size(c.oid)), 0)::float8
from unnest(%s::text[], %s::text[]) t (nspname, relname)
join pg_catalog.pg_namespace n on n.nspname = t.nspname
join pg_catalog.pg_class r on r.relnamespace = n.oid and r.relname = t.relname
left join lateral pg_catalog.pg_partition_tree(r.oid) p on true
join pg_catalog.pg_class c on c.oid = coalesce(p.relid, r.oid) and c.relkind <> 'p'
"""


def refuse_outliving_slot(
    config: Config,
    tables: Sequence[str],
    rate: str | None,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Look at the slot twice, and raise ``SourceError`` if it is lost before ``tables`` are read at
    ``rate``, should the source write WAL as it does now."""
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        chosen = refuse_unfit(conn, config.source, tables)
        names = [table.schema for table in chosen], [table.name for table in chosen]
        needed_s = _seconds(conn, names, *parse_rate(rate or config.snapshot.rate))
        if needed_s < _SHORT_S:
            return
        first = slot_activity(conn, config.source.slot_name)
        if first.safe_wal_size is None:
            return
        wait(_BETWEEN_S)
        left_s = loss_s(first, slot_activity(conn, config.source.slot_name))
    if min(needed_s, config.snapshot.max_age_s) > left_s:
        raise SourceError(
            f"the snapshot takes about {needed_s:,.0f} s, and at the rate at which the source "
            f"writes WAL now a slot is lost in {left_s:,.0f} s",
            "raise max_slot_wal_keep_size on the source or --rate, start when less is written, or "
            "take the risk with --despite-forecast",
        )


def loss_s(first: SlotActivity, second: SlotActivity) -> float:
    """Until the slot is lost, if WAL is written as between two looks. Pure."""
    written, seconds = second.wal_end - first.wal_end, second.clock_s - first.clock_s
    if second.safe_wal_size is None or written <= 0 or seconds <= 0:
        return float("inf")
    return max(0, second.safe_wal_size) / (written / seconds)


def _seconds(
    conn: Connection, names: tuple[list[str], list[str]], rows_s: float, bytes_s: float
) -> float:
    """Without a rate nobody knows: as if no time at all."""
    with translated("reading the sizes of tables"):
        row = conn.execute(_SIZES, names).fetchone()
    assert row is not None
    return max(float(row[0]) / rows_s, float(row[1]) / bytes_s)
