"""How fast a backlog of two tables is applied to a view that joins them, over mirrors."""

from __future__ import annotations

from statistics import median
from typing import Final

from benchmarks.capture.consumer import opened
from benchmarks.capture.process import await_count, capturing, require_exactly, slot_of, topic_of
from benchmarks.capture.shapes import CUSTOMERS, orders_of
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import Setting, create_table, drop_table, headwater, init_source, load
from benchmarks.report.metrics import REPEATS
from benchmarks.views import contents
from benchmarks.views.backlog import catch_up, update_rows
from benchmarks.views.contents import require_same
from benchmarks.views.process import Declared, declare, open_stores, records_in
from cdc.source.errors import translated
from cdc.source.postgres import Connection

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
_BUILD_S: Final = 600.0


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
        declared = [Declared(view, "redis", _SQL) for view in views]
        declare(setting, _SOURCE, stores, declared, "views-joined")
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
        headwater(setting, _SOURCE, *command, log=f"build-{view}", timeout_s=_BUILD_S)
        before = {table: records_in(setting, topic_of(_SOURCE, table)) for table in _TABLES}
        for table, column in zip(_TABLES, ("total", "credit"), strict=True):
            more = f"{column} = {column} + i"
            update_rows(setting, conn, table, more, rows, range(1, changes + 1))
        for table, had in before.items():
            with opened(setting.bootstrap, topic_of(_SOURCE, table)) as log:
                await_count(
                    log,
                    had + changes,
                    run.process.check,
                    lambda part: setting.watch("changes on their way to Kafka", part),
                )
                require_exactly(log.count(), had + changes, run.process.name)
    caught = catch_up(setting, _SOURCE, view)
    require_same(setting, _ALL, contents.in_redis(redis_url, view), f"view {view}")
    return len(_TABLES) * changes / caught.spans.stream_s
