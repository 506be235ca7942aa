"""Looks at lag as servers would give them, for a source with two views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc.config import Config, parse_config
from cdc.lag.report import Assessor, Block
from headwater.lag.watch import Seen
from tests.unit.cdc.lag.test_report import SLOT, lag, partition

__all__ = ["SLOT", "config", "look", "partition"]

VIEW = {"store": "cache", "key": ["id"], "sql": "select id from orders"}


def config(*views: str) -> Config:
    document = {
        "source": {"name": "shop", "dsn": "postgresql://nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:1"},
        "stores": {"cache": {"kind": "redis", "url": "redis://localhost:1"}},
        "views": dict.fromkeys(views or ("v", "w"), VIEW),
    }
    return parse_config(document, {}, Path("/nowhere"))


def look(
    *views: Any,
    faults: dict[str, dict[str, str]] | None = None,
    parked: dict[str, int] | None = None,
    seen: dict[str, Any] | None = None,
    **more: Any,
) -> Seen:
    """A single look at these partitions."""
    faults = faults or {}
    blocks = {view: Block(one["kind"], one["fault"]) for view, one in faults.items()}
    report = Assessor(10.0).report(lag(*views, **more), blocks, parked or {})
    return Seen(report, {}, faults, **(seen or {}))
