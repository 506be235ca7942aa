"""How fast a backlog is applied: ``headwater apply --available-now``, store by store, beside a
plain MERGE over the same topic and opensearch-py's own bulk of the documents that come out."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple

from benchmarks.capture.consumer import opened
from benchmarks.capture.process import (
    Capturing,
    await_count,
    capturing,
    require_exactly,
    slot_of,
    topic_of,
)
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import (
    Setting,
    create_table,
    drop_table,
    headwater,
    init_source,
    load,
)
from benchmarks.peers.bulk import bulk_rates
from benchmarks.peers.spark_merge_process import Spans, merge_now, plain_table
from benchmarks.report.metrics import REPEATS
from benchmarks.views import contents
from benchmarks.views.backlog import catch_up, update_rows
from benchmarks.views.contents import require_same
from benchmarks.views.process import Declared, declare, lake, open_stores
from cdc.source.postgres import Connection
from stack.servers import Endpoints

_SOURCE: Final = "caught_up"
_TABLE: Final = "orders_behind"
CHANGES_A_KEY: Final = 10
"""Ten updates."""
_TRANSACTION_ROWS: Final = 1_000
_BUILD_S: Final = 600.0
_STORES: Final = ("delta", "redis", "opensearch")


class Run(NamedTuple):
    """How long it took, and how many rows it gave to its store."""

    spans: Spans
    written: int


def measure_catch_up(setting: Setting) -> dict[str, float]:
    """Changes a second of each store and of the plain MERGE; medians of ``REPEATS`` runs."""
    stores = open_stores(setting)
    runs: dict[str, list[Run]] = {name: [] for name in (*_STORES, "plain")}
    bulk: list[float] = []
    repeats = setting.scaled(REPEATS, 1)
    keys = setting.rows // CHANGES_A_KEY
    with setting.connect() as conn:
        create_table(conn, USUAL, _TABLE)
        load(setting, conn, USUAL, _TABLE, keys, _TRANSACTION_ROWS)
        init_source(setting, _SOURCE, _TABLE, "--no-snapshot")
        with capturing(setting, _SOURCE) as run:
            for i in range(repeats):
                for store in _STORES:
                    _create(setting, stores, store, i)
            update_keys(setting, conn, _TABLE, keys)
            _await_changes(setting, run)
        for i in range(repeats):  # in turns, so that what disturbs the machine disturbs all
            for store in _STORES:
                runs[store].append(_apply(setting, stores, store, i))
            runs["plain"].append(_merge(setting, i))
            bulk.append(max(bulk_rates(stores.opensearch_url, _view("opensearch", i)).values()))
        drop_slot(conn, slot_of(_SOURCE))
        drop_table(conn, _TABLE)
    return catch_up_figures(setting.rows, runs, bulk)


def catch_up_figures(
    changes: int, runs: Mapping[str, list[Run]], bulk: list[float]
) -> dict[str, float]:
    """Medians. Rates are of the stream; those with Spark's start are of the whole process."""

    def rate(name: str) -> float:
        return changes / median(run.spans.stream_s for run in runs[name])

    figures = {f"apply_{store}_changes_per_s": rate(store) for store in _STORES}
    for store in _STORES:
        whole = changes / median(run.spans.process_s for run in runs[store])
        figures[f"apply_{store}_with_start_changes_per_s"] = whole
    of_opensearch = runs["opensearch"]
    return {
        **figures,
        "apply_opensearch_documents_per_s": median(
            r.written / r.spans.stream_s for r in of_opensearch
        ),
        "bulk_opensearch_documents_per_s": median(bulk),
        "apply_opensearch_vs_bulk": figures["apply_opensearch_changes_per_s"] / median(bulk),
        "plain_merge_changes_per_s": rate("plain"),
        "apply_vs_plain_merge": figures["apply_delta_changes_per_s"] / rate("plain"),
    }


def update_keys(setting: Setting, conn: Connection, table: str, keys: int) -> None:
    """As many changes as the setting says, of all rows alike."""
    assignments = "total = i, updated_at = updated_at + interval '1 hour'"
    update_rows(setting, conn, table, assignments, keys, range(1, setting.rows + 1))


def _await_changes(setting: Setting, run: Capturing) -> None:
    """Until all changes are in Kafka, no more of them and no fewer."""
    with opened(setting.bootstrap, topic_of(_SOURCE, _TABLE)) as log:
        await_count(
            log,
            setting.rows,
            run.process.check,
            lambda part: setting.watch("changes on their way to Kafka", part),
        )
        require_exactly(log.count(), setting.rows, run.process.name)


def _declare(setting: Setting, stores: Endpoints, store: str, i: int) -> str:
    """A view of its own, with mirrors of its own: all of them have the same changes before them."""
    view = _view(store, i)
    declared = [Declared(view, store, f"select * from {_TABLE}")]
    declare(setting, _SOURCE, stores, declared, f"views-{view}")
    return view


def _create(setting: Setting, stores: Endpoints, store: str, i: int) -> None:
    view = _declare(setting, stores, store, i)
    command = ("view", "create", view)
    headwater(setting, _SOURCE, *command, log=f"build-{view}", timeout_s=_BUILD_S)


def _view(store: str, i: int) -> str:
    return f"behind_{store}_{i}"


def _apply(setting: Setting, stores: Endpoints, store: str, i: int) -> Run:
    """One store, once: a view that was built before all of the changes."""
    view = _declare(setting, stores, store, i)
    caught = catch_up(setting, _SOURCE, view)
    found = {
        "delta": lambda: contents.in_delta(lake(setting) / view),
        "redis": lambda: contents.in_redis(stores.redis_url, view),
        "opensearch": lambda: contents.in_opensearch(stores.opensearch_url, view),
    }
    require_same(setting, _TABLE, found[store](), f"view {view}")
    return Run(caught.spans, caught.written)


def _merge(setting: Setting, i: int) -> Run:
    """The plain MERGE, once."""
    table = plain_table(setting, f"behind_{i}")
    spans = merge_now(setting, topic_of(_SOURCE, _TABLE), table)
    require_same(setting, _TABLE, contents.in_delta(table), "the plain MERGE's table")
    return Run(spans, 0)
