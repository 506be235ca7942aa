"""A view built from a snapshot, end to end, in each kind of store.

``headwater view create`` on a table that nothing else reads: from the moment the build begins, with
Spark up, to the moment readers see the view.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from benchmarks.capture.process import slot_of
from benchmarks.capture.shapes import CUSTOMERS, USUAL
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
from benchmarks.peers.bulk import bulk_rates
from benchmarks.report.metrics import REPEATS
from benchmarks.views.process import Declared, declare, open_stores
from cdc.errors import FatalError
from stack.servers import Endpoints

_SOURCE: Final = "viewed"
_TABLE: Final = "orders_viewed"
_BESIDE: Final = "orders_viewed_customers"
_STORES: Final = ("delta", "redis", "opensearch")
_JOINED: Final = "joined"
_SQL: Final = f"select * from {_TABLE}"
_JOIN: Final = (
    f"select o.id, o.total, o.status, c.name, c.credit from {_TABLE} o join {_BESIDE} c"
    " on c.id = o.id"
)
_TIMEOUT_S: Final = 600.0


def measure_bootstrap(setting: Setting) -> dict[str, float]:
    """Rows a second for each store, from nothing, and seconds of a join over mirrors that are
    there; medians of ``REPEATS`` new views."""
    stores = open_stores(setting)
    taken: dict[str, list[float]] = {store: [] for store in (*_STORES, _JOINED)}
    bulk: list[float] = []
    with setting.connect() as conn:
        for table, shape in ((_TABLE, USUAL), (_BESIDE, CUSTOMERS)):
            create_table(conn, shape, table)
            load(setting, conn, shape, table, setting.rows, setting.rows)
            settle(conn, table)
        init_source(setting, _SOURCE, f"{_TABLE}*", "--no-snapshot")
        for i in range(REPEATS):  # in turns, so that what disturbs the machine disturbs all
            for store in _STORES:
                # A state of its own: nothing is mirrored yet.
                view = _declare(setting, stores, store, f"{store}_{i}", _SQL, f"{store}-{i}")
                taken[store].append(_built(setting, view))
                if store == "opensearch":
                    bulk.append(max(bulk_rates(stores.opensearch_url, view).values()))
                _drop(setting, view)
            taken[_JOINED].append(_joined(setting, stores, i))
        drop_slot(conn, slot_of(_SOURCE))
        for table in (_TABLE, _BESIDE):
            drop_table(conn, table)
    return bootstrap_figures(setting.rows, taken, bulk)


def bootstrap_figures(
    rows: int, taken: Mapping[str, Sequence[float]], bulk: Sequence[float]
) -> dict[str, float]:
    """From seconds by store, and documents a second of opensearch-py's own bulk."""
    figures = {f"bootstrap_{store}_rows_per_s": rows / median(taken[store]) for store in _STORES}
    return {
        **figures,
        "bootstrap_opensearch_vs_bulk": figures["bootstrap_opensearch_rows_per_s"] / median(bulk),
        "bootstrap_join_s": median(taken[_JOINED]),
    }


def _joined(setting: Setting, stores: Endpoints, i: int) -> float:
    """A join into Delta, over tables that another view had mirrored."""
    state = f"joined-{i}"
    first = _declare(setting, stores, "delta", f"first_{i}", _JOIN, state)
    _built(setting, first)
    view = _declare(setting, stores, "delta", f"joined_{i}", _JOIN, state, first)
    seconds = _built(setting, view)
    for one in (view, first):
        _drop(setting, one)
    return seconds


def _declare(
    setting: Setting,
    stores: Endpoints,
    store: str,
    view: str,
    sql: str,
    state: str,
    *others: str,
) -> str:
    views = [Declared(name, store, sql) for name in (*others, view)]
    declare(setting, _SOURCE, stores, views, f"views-{state}")
    return view


def _built(setting: Setting, view: str) -> float:
    """Seconds of one build, as it tells them: Spark is up before."""
    command = ("view", "create", view, "--json")
    said = headwater(setting, _SOURCE, *command, log=f"view-{view}", timeout_s=_TIMEOUT_S)
    (built,) = json.loads(said)
    if built["rows"] != setting.rows:
        raise FatalError(f"view {view} was built from {built['rows']} of {setting.rows} rows")
    return float(built["seconds"])


def _drop(setting: Setting, view: str) -> None:
    command = ("view", "drop", view, "--yes")
    headwater(setting, _SOURCE, *command, log=f"view-{view}", timeout_s=_TIMEOUT_S)
