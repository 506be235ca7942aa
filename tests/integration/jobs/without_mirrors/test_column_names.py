"""Stores keep columns under whatever names they can, and refuse the others before they begin."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from cdc.errors import ViewError
from tests.support.events.batches import upsert
from tests.support.servers.stores import LSN, OpenFeed, Store

KEPT = {
    "delta": ("a.b", "a b", " ", "a,;{}()=b", "_id", "ctid"),
    "opensearch": ("a-b", "ü", "Id", "ctid"),
    "redis": ("a.b", "a b", " ", "_id", "Id"),
    "postgres": ("a.b", "a b", " ", "_id", "Id", "x" * 63),
}
REFUSED = {
    "delta": ("Id", "for one name"),
    "opensearch": ("_source", "no fields named '_source'"),
    "postgres": ("x" * 64, "cuts names behind 63 bytes"),
}


def _columns(*names: str) -> StructType:
    inner = StructType().add(names[0], StringType())
    columns = StructType().add("id", LongType()).add("of", inner)
    for name in names:
        columns = columns.add(name, StringType())
    return columns


def test_odd_names_are_kept_where_they_can_be(store: Store, open_feed: OpenFeed) -> None:
    names = KEPT[store.kind]
    feed = open_feed(store, _columns(*names))
    values: dict[str, Any] = {name: f"in {name}" for name in names}
    feed.apply(upsert(LSN, id=1, of={names[0]: "inside"}, **values))
    feed.restart()
    found = feed.rows()[(1,)].values
    assert {name: found[name] for name in names} == values


def test_others_are_refused_before_anything_is_made(store: Store, open_feed: OpenFeed) -> None:
    if store.kind not in REFUSED:  # Redis takes any
        return
    name, reason = REFUSED[store.kind]
    with pytest.raises(ViewError, match=reason):
        open_feed(store, _columns("a", name))
    open_feed(store, _columns("a"))
