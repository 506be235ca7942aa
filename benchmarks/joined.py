"""How fast a backlog of two tables is applied to a view that joins them, over mirrors."""

from __future__ import annotations

from statistics import median
from typing import Final

from benchmarks import contents
from benchmarks.capturing import await_count, capturing, slot_of, topic_of
from benchmarks.consumer import opened
from benchmarks.contents import require_same
from benchmarks.metrics import REPEATS
from benchmarks.setting import Setting, create_table, drop_table, headwater, init_source, load
from benchmarks.shapes import CUSTOMERS, STRIDE, orders_of
from benchmarks.slots import drop_slot
from benchmarks.viewing import Declared, applied, at_of, declare, events, open_stores, records_in
from cdc.errors import FatalError
from cdc.source.postgres import Connection, translated

_SOURCE: Final = "joined"
_ORDERS: Final = "joined_orders"
_CUSTOMERS: Final = "joined_customers"
_TABLES: Final = (_ORDERS, _CUSTOMERS)
_SQL: Final = (
    f"select o.id, o.total + c.credit as total, o.status, o.note, c.name from public.{_ORDERS} o"
    f" join public.{_CUSTOMERS} c on c.id = o.customer_id"
)
_ALL: Final = "joined_all"
"""What the view is to hold: its SQL, as a view of the source."""
_ROUNDS: Final = 5
"""So often each row changes."""
_TRANSACTION_ROWS: Final = 1_000
_TIMEOUT_S: Final = 600.0


def measure_joined(setting: Setting) -> dict[str, float]:
    """Changes a second, of as many in each table: the median of ``REPEATS`` backlogs."""
    stores = open_stores(setting)
    views = [f"joined_{i}" for i in range(setting.scaled(REPEATS, 1))]
    rows = setting.rows // (2 * _ROUNDS)
    with setting.connect() as conn:
        for table, shape in zip(_TABLES, (orders_of(rows), CUSTOMERS), strict=True):
            create_table(conn, shape, table)
            load(setting, conn, shape, table, rows, rows)
        with translated(f"creating {_ALL}"):
            conn.execute(f"create view public.{_ALL} as {_SQL}".encode())
        init_source(setting, _SOURCE, f"{_SOURCE}_*", "--no-snapshot")
        declare(setting, _SOURCE, stores, [Declared(view, "redis", _SQL) for view in views])
        rates = [_caught_up(setting, conn, view, rows, stores.redis_url) for view in views]
        drop_slot(conn, slot_of(_SOURCE))
        with translated(f"dropping {_ALL}"):
            conn.execute(f"drop view public.{_ALL}".encode())
        for table in _TABLES:
            drop_table(conn, table)
    return {"apply_join_changes_per_s": median(rates)}


def _caught_up(setting: Setting, conn: Connection, view: str, rows: int, redis_url: str) -> float:
    """Changes a second of a new view, behind which both tables change."""
    changes = rows * _ROUNDS
    with capturing(setting, _SOURCE) as run:
        command = ("view", "create", view)
        headwater(setting, _SOURCE, *command, log=f"build-{view}", timeout_s=_TIMEOUT_S)
        before = {table: records_in(setting, topic_of(_SOURCE, table)) for table in _TABLES}
        _change(setting, conn, rows)
        for table, had in before.items():
            with opened(setting.bootstrap, topic_of(_SOURCE, table)) as log:
                await_count(
                    log,
                    had + changes,
                    run.process.check,
                    lambda part: setting.watch("changes on their way to Kafka", part),
                )
    return _apply(setting, view, redis_url, len(_TABLES) * changes)


def _change(setting: Setting, conn: Connection, rows: int) -> None:
    """Every row of both tables, again and again, in an order that is not theirs."""
    step = min(_TRANSACTION_ROWS, rows)
    with translated("changing rows"):
        conn.execute("set synchronous_commit = off")
        for first in range(1, rows * _ROUNDS + 1, step):
            last = min(first + step - 1, rows * _ROUNDS)
            series = f"generate_series({first}, {last}) i"
            which = f"id = 1 + mod(i::bigint * {STRIDE}, {rows})"
            for table, column in ((_ORDERS, "total"), (_CUSTOMERS, "credit")):
                text = f"update public.{table} set {column} = {column} + i from {series}"
                conn.execute(f"{text} where {which}".encode())
            setting.watch("changing rows", first / (rows * _ROUNDS))
        conn.execute("reset synchronous_commit")


def _apply(setting: Setting, view: str, redis_url: str, changes: int) -> float:
    """Changes a second of a view that was built before all of them."""
    log = f"apply-{view}"
    command = ("apply", view, "--available-now", "--json")
    headwater(setting, _SOURCE, *command, log=log, timeout_s=_TIMEOUT_S)
    started = next(events(setting.log(log), "view_started"))
    batches = applied(setting.log(log))
    if (records := sum(batch.records for batch in batches)) < changes:
        raise FatalError(f"view {view} was given {records} of {changes} changes")
    require_same(setting, _ALL, contents.in_redis(redis_url, view), f"view {view}")
    return changes / (batches[-1].at - at_of(started))
