"""A view built from a snapshot, end to end, in each kind of store.

``headwater view create`` on a table that nothing else reads: from the moment the build begins, with
Spark up, to the moment readers see the view.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import Final

from benchmarks.capturing import slot_of
from benchmarks.metrics import REPEATS
from benchmarks.setting import (
    Setting,
    create_table,
    drop_table,
    headwater,
    init_source,
    load,
    servers_home,
    settle,
)
from benchmarks.shapes import USUAL
from benchmarks.slots import drop_slot
from cdc.errors import FatalError
from stack import servers

_TABLE: Final = "orders_viewed"
_TIMEOUT_S: Final = 600.0


def measure_bootstrap(setting: Setting) -> dict[str, float]:
    """Rows a second for each store; medians of ``REPEATS`` new views."""
    found = servers.start(servers_home(setting.home), ["opensearch", "redis"])
    stores = {
        "delta": f'kind = "delta"\npath = "{setting.home / "lake"}"',
        "redis": f'kind = "redis"\nurl = "{found.redis_url}"',
        "opensearch": f'kind = "opensearch"\nurl = "{found.opensearch_url}"',
    }
    with setting.connect() as conn:
        create_table(conn, USUAL, _TABLE)
        load(setting, conn, USUAL, _TABLE, setting.rows, setting.rows)
        settle(conn, _TABLE)
        source = "viewed"
        init_source(setting, source, _TABLE, "--no-snapshot")
        taken: dict[str, list[float]] = {kind: [] for kind in stores}
        _declare(setting, source, stores)
        for i in range(REPEATS):  # in turns, so that what disturbs the machine disturbs all
            for kind in stores:
                taken[kind].append(_build(setting, source, f"{kind}_{i}"))
        drop_slot(conn, slot_of(source))
        drop_table(conn, _TABLE)
    return {
        f"bootstrap_{kind}_rows_per_s": setting.rows / median(seconds)
        for kind, seconds in taken.items()
    }


def _declare(setting: Setting, source: str, stores: Mapping[str, str]) -> None:
    """A view for each store and turn."""
    lines = ['[snapshot]\nrate = "none"\n', "[apply]", f'state = "{setting.home / "views"}"']
    for kind, store in stores.items():
        lines.append(f"[stores.{kind}]\n{store}")
        for i in range(REPEATS):
            lines.append(f'[views.{kind}_{i}]\nstore = "{kind}"\nkey = ["id"]')
            lines.append(f'sql = "select * from {_TABLE}"')
    with setting.config(source).open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def _build(setting: Setting, source: str, view: str) -> float:
    """Seconds of all steps of one build; the view is dropped again."""
    log, answer = f"view-{view}", ""
    for arguments in (("create", view, "--json"), ("drop", view)):
        said = headwater(setting, source, "view", *arguments, log=log, timeout_s=_TIMEOUT_S)
        answer = answer or said
    (built,) = json.loads(answer)
    if built["rows"] != setting.rows:
        raise FatalError(f"view {view} was built from {built['rows']} of {setting.rows} rows")
    return float(sum(built["seconds"].values()))
