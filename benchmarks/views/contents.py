"""What a store holds of a view in the end: a fast figure over lost changes is not a figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from deltalake import DeltaTable, QueryBuilder
from opensearchpy import OpenSearch, helpers
from redis import Redis

from benchmarks.environment import Setting
from cdc.errors import FatalError
from cdc.source.errors import translated

_PAGE: Final = 1_000


class Contents(NamedTuple):
    """Rows, and the sum of their column ``total``."""

    rows: int
    total: Decimal


def require_same(setting: Setting, table: str, found: Contents, who: str) -> None:
    """Raise ``FatalError`` unless a view of the whole table has its rows."""
    with setting.connect() as conn, translated(f"reading {table}"):
        row = conn.execute(f"select count(*), sum(total) from public.{table}".encode()).fetchone()
    assert row is not None
    wanted = Contents(*row)
    if found != wanted:
        raise FatalError(f"{who} holds {found}, the source {wanted}")


def in_delta(table: Path) -> Contents:
    """Of a Delta table, without the rows that its deletion vectors name."""
    asked = QueryBuilder().register("held", DeltaTable(table))
    found = asked.execute("select count(*) as rows, sum(total) as total from held").read_all()
    (row,) = found.to_struct_array().to_pylist()
    return Contents(**row)


def in_redis(url: str, view: str) -> Contents:
    """Of the live rows in Redis."""
    client = Redis.from_url(url)
    live: Any = client.get(f"{view}@live")

    def totals() -> Iterator[Any]:
        names: list[bytes] = []
        for name in client.scan_iter(f"{live.decode()}:*", _PAGE):
            names.append(name)
            if len(names) == _PAGE:
                yield from _of_rows(client, names)
                names.clear()
        yield from _of_rows(client, names)

    return _contents(totals())


def _of_rows(client: Any, names: list[bytes]) -> Iterator[Any]:
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.hget(name, "doc")
    yield from (json.loads(document)["total"] for document in pipe.execute())


def in_opensearch(url: str, view: str) -> Contents:
    """Of the documents that a search finds."""
    return _contents(hit["_source"]["total"] for hit in documents(url, view, ["total"]))


def documents(url: str, index: str, fields: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """All documents that a search finds, with some fields or all."""
    query = {"query": {"match_all": {}}, **({"_source": fields} if fields else {})}
    yield from helpers.scan(OpenSearch(url), query, size=_PAGE, index=index)


def _contents(totals: Any) -> Contents:
    rows, total = 0, Decimal(0)
    for value in totals:
        rows += 1
        total += Decimal(str(value))
    return Contents(rows, total)
