"""opensearch-py's own bulk helpers as a peer: the same documents, into an index made alike."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from opensearchpy import OpenSearch, helpers

from benchmarks.views.contents import documents
from cdc.errors import FatalError

_INDEX: Final = "bulk-peer"
_KEPT: Final = ("number_of_shards", "number_of_replicas", "refresh_interval")


def bulk_rates(url: str, view: str) -> dict[str, float]:
    """Documents a second of each helper, with its defaults, over all documents of a view, until a
    search finds them."""
    client = OpenSearch(url)
    found = [(hit["_id"], hit["_source"]) for hit in documents(url, view)]
    return {
        name: len(found) / _seconds(client, view, found, send)
        for name, send in (("bulk", _bulk), ("parallel_bulk", _parallel_bulk))
    }


def _seconds(
    client: Any,
    view: str,
    found: list[tuple[str, dict[str, Any]]],
    send: Callable[[Any, Iterable[dict[str, Any]]], None],
) -> float:
    (like,) = client.indices.get(index=view).values()
    settings = {k: v for k, v in like["settings"]["index"].items() if k in _KEPT}
    body = {"settings": settings, "mappings": like["mappings"]}
    client.indices.create(index=_INDEX, body=body)
    try:
        began = time.monotonic()
        send(client, _actions(found))
        client.indices.refresh(index=_INDEX)
        seconds = time.monotonic() - began
        held = client.count(index=_INDEX)["count"]
    finally:
        client.indices.delete(index=_INDEX)
    if held != len(found):
        raise FatalError(f"opensearch-py has written {held} of {len(found)} documents")
    return seconds


def _actions(found: list[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for name, source in found:
        yield {"_op_type": "index", "_index": _INDEX, "_id": name, "_source": source}


def _bulk(client: Any, actions: Iterable[dict[str, Any]]) -> None:
    helpers.bulk(client, actions)


def _parallel_bulk(client: Any, actions: Iterable[dict[str, Any]]) -> None:
    deque(helpers.parallel_bulk(client, actions), maxlen=0)  # it sends as its answers are read
