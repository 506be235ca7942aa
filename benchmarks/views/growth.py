"""What a small batch of a joined view costs, over mirrors of more and more rows."""

from __future__ import annotations

from statistics import median
from typing import Final

from benchmarks.capture.consumer import opened
from benchmarks.capture.process import await_count, capturing, slot_of, topic_of
from benchmarks.capture.shapes import CUSTOMERS, STRIDE, orders_of
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import (
    Setting,
    create_table,
    drop_table,
    headwater,
    init_source,
    load,
    settle,
)
from benchmarks.report.metrics import GROWTH_ROWS
from benchmarks.views.process import (
    Declared,
    applied,
    applying,
    await_applied,
    declare,
    open_stores,
    records_in,
)
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from stack.child_process import Process
from stack.servers import Endpoints

CHANGES: Final = 100
_OF_CUSTOMERS: Final = 10
"""Of them: each is of all the orders that a customer has."""
_ORDERS_EACH: Final = 9
"""So that orders and customers together are as many rows as are said."""
_BATCHES: Final = 10
_WARM_UP: Final = 10
"""Batches that do not count."""
_BUILD_S: Final = 900.0


def measure_growth(setting: Setting) -> dict[str, float]:
    """Milliseconds of a batch of 100 changes: medians, for each size."""
    stores = open_stores(setting)
    figures = {}
    for rows in GROWTH_ROWS:
        took_s = _measured(setting, stores, rows, setting.scaled(rows, 1_000))
        figures[f"growth_{rows}_batch_ms"] = median(took_s) * 1_000
    sizes = [figures[f"growth_{rows}_batch_ms"] for rows in GROWTH_ROWS]
    return {**figures, "growth_ratio": sizes[-1] / sizes[0]}


def _measured(setting: Setting, stores: Endpoints, name: int, rows: int) -> list[float]:
    """Seconds of each batch over tables of so many rows, the first of them left out."""
    source, view = f"grown_{name}", f"grown_{name}_view"
    tables = orders, customers = f"{source}_orders", f"{source}_customers"
    of_customers = rows // (_ORDERS_EACH + 1)
    sizes = rows - of_customers, of_customers
    with setting.connect() as conn:
        for table, shape, size in zip(tables, (orders_of(sizes[1]), CUSTOMERS), sizes, strict=True):
            create_table(conn, shape, table)
            load(setting, conn, shape, table, size, size)
            settle(conn, table)
        init_source(setting, source, f"{source}_*", "--no-snapshot")
        joined = (
            f"select o.id, o.total, o.status, o.note, c.name, c.credit from {orders} o"
            f" join {customers} c on c.id = o.customer_id"
        )
        declare(setting, source, stores, [Declared(view, "redis", joined)])
        with capturing(setting, source):
            headwater(setting, source, "view", "create", view, log=view, timeout_s=_BUILD_S)
            with applying(setting, source, view) as process:
                topics = [topic_of(source, table) for table in tables]
                await_applied(setting, process, topics)
                took_s = [
                    _batch(setting, conn, process, topics, sizes, number)
                    for number in range(_WARM_UP + setting.scaled(_BATCHES, 2))
                ]
        drop_slot(conn, slot_of(source))
        for table in tables:
            drop_table(conn, table)
    return took_s[_WARM_UP:]


def _batch(
    setting: Setting,
    conn: Connection,
    process: Process,
    topics: list[str],
    sizes: tuple[int, int],
    number: int,
) -> float:
    """One transaction, to its end in the store; seconds of the batches that brought it there."""
    before = {topic: records_in(setting, topic) for topic in topics}
    known = len(applied(process.log))
    changes = (CHANGES - _OF_CUSTOMERS, _OF_CUSTOMERS)
    with translated("changing rows"), conn.transaction():
        for topic, column, rows, count in zip(
            topics, ("total", "credit"), sizes, changes, strict=True
        ):
            table = topic.rpartition(".")[2]
            first = number * count + 1
            conn.execute(
                f"update public.{table} set {column} = {column} + 1"
                f" from generate_series({first}, {first + count - 1}) i"
                f" where id = 1 + mod(i::bigint * {STRIDE}, {rows})".encode()
            )
    for topic, count in zip(topics, changes, strict=True):
        with opened(setting.bootstrap, topic) as log:
            await_count(log, before[topic] + count, process.check, lambda _part: None)
    await_applied(setting, process, topics)
    return sum(batch.seconds for batch in applied(process.log)[known:])
