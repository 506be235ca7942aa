"""Views as their stores hold them, read past all of Headwater, beside their SQL on the source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import opensearchpy
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import redis
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from opensearchpy import OpenSearchException
from opensearchpy.helpers import scan
from psycopg import sql
from psycopg.rows import dict_row

from tests.chaos.servers.stores import Stores
from tests.chaos.views.declarations import Kept

Row = dict[str, Any]
Key = tuple[Any, ...]
_SHOWN: Final = 3
_LONGEST: Final = 60
_UNREADABLE: Final = (OpenSearchException, redis.RedisError, DeltaError, psycopg.Error, KeyError)
"""As of a view that was never made there."""
_OWN: Final = "__"
"""Columns and fields that begin so are Headwater's."""


def compare(view: Kept, stores: Stores, dsn: str, folder: Path) -> tuple[int, list[str]]:
    """How many rows the view has by its SQL, and a line for each kind of difference. The rows of a
    view that differs are kept in ``folder``."""
    wanted, _ = _by_key(view, expected(view, dsn))
    try:
        found, twice = _by_key(view, _READERS[view.store](view, stores, folder))
    except _UNREADABLE as error:
        said = f"{type(error).__name__}: {error}"
        return len(wanted), [f"{view.name} in {view.store} cannot be read: {said}"]
    findings = [f"{view.name} in {view.store}: {key} is there twice" for key in twice]
    findings += differences(view, wanted, found)
    if findings:
        for name, rows in (("expected", wanted), ("found", found)):
            lines = (
                json.dumps(row, ensure_ascii=False) for _, row in sorted(rows.items(), key=repr)
            )
            (folder / f"{view.name}.{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return len(wanted), findings


def differences(view: Kept, wanted: Mapping[Key, Row], found: Mapping[Key, Row]) -> list[str]:
    """What the store lacks, has too much, or has otherwise; the first few of each by name. Pure."""
    parts = {
        "lacks": sorted(wanted.keys() - found.keys(), key=repr),
        "has besides": sorted(found.keys() - wanted.keys(), key=repr),
        "differs in": [key for key in wanted if key in found and wanted[key] != found[key]],
    }
    findings = []
    for what, keys in parts.items():
        if keys:
            shown = ", ".join(_shown(key, wanted.get(key), found.get(key)) for key in keys[:_SHOWN])
            findings.append(f"{view.name} in {view.store} {what} {len(keys)} rows: {shown}")
    return findings


def expected(view: Kept, dsn: str) -> Iterator[Row]:
    """The view's SQL, as it is declared, run on the source."""
    with psycopg.connect(dsn) as conn:
        yield from map(_plain_row, conn.cursor(row_factory=dict_row).execute(view.sql.encode()))


def _of_opensearch(view: Kept, stores: Stores, _folder: Path) -> Iterator[Row]:
    with opensearchpy.OpenSearch(hosts=[stores.direct["opensearch"]]) as search:
        search.indices.refresh(index=view.name)
        for hit in scan(search, index=view.name, query={"query": {"match_all": {}}}):
            yield _plain_row(hit["_source"])


def _of_redis(view: Kept, stores: Stores, _folder: Path) -> Iterator[Row]:
    client: Any = redis.Redis.from_url(stores.direct["redis"], decode_responses=True)
    with client:
        live = client.get(f"{view.name}@live")
        for name in set(client.scan_iter(f"{live}:*", count=1000)):
            document = client.hget(name, "doc")
            if document is not None:
                yield _plain_row(json.loads(document))


def _of_delta(view: Kept, _stores: Stores, folder: Path) -> Iterator[Row]:
    path = folder / "lake" / view.name
    table = DeltaTable(path)
    if "typeWidening" in (table.protocol().reader_features or ()):  # delta-rs does not read such
        files = [pq.read_table(one) for one in table.file_uris()]
        rows = pa.concat_tables(files, promote_options="permissive").to_pylist()
    else:
        found = QueryBuilder().register("v", table).execute("select * from v")
        rows = pa.table(found.read_all()).to_pylist()
    yield from map(_plain_row, current(view, rows))


def current(view: Kept, rows: Sequence[Row]) -> Iterable[Row]:
    """Of a history the rows that are there now; any other table has no others. Pure."""
    if view.history == "scd2":
        return [row for row in rows if row["__current"]]
    if view.history == "log":
        newest = sorted(rows, key=lambda row: (row["__commit_lsn"], row["__ordinal"]))
        found = {tuple(row[name] for name in view.key): row for row in newest}
        return [row for row in found.values() if row["__op"] not in ("d", "t")]
    return rows


def _of_postgres(view: Kept, stores: Stores, folder: Path) -> Iterator[Row]:
    dsn = urlsplit(stores.direct["postgres"])._replace(path=f"/{folder.name}").geturl()
    query = sql.SQL("select * from {}").format(sql.Identifier(view.name))
    with psycopg.connect(dsn) as conn:
        yield from map(_plain_row, conn.cursor(row_factory=dict_row).execute(query))


_READERS: Final[Mapping[str, Callable[[Kept, Stores, Path], Iterator[Row]]]] = {
    "opensearch": _of_opensearch,
    "redis": _of_redis,
    "delta": _of_delta,
    "postgres": _of_postgres,
}


def _by_key(view: Kept, rows: Iterator[Row]) -> tuple[dict[Key, Row], list[Key]]:
    """Rows by their key; the keys that several rows have."""
    found: dict[Key, Row] = {}
    twice = []
    for row in rows:
        key = tuple(row[name] for name in view.key)
        if key in found:
            twice.append(key)
        found[key] = row
    return found, twice


def _plain_row(row: Mapping[str, Any]) -> Row:
    """Without what is NULL: a document may lack columns that came later."""
    return {
        name: _plain(value)
        for name, value in row.items()
        if value is not None and not name.startswith(_OWN)
    }


def _plain(value: Any) -> Any:
    """A value in the one form in which stores are compared: numerics and uuids are text, as in
    documents."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _shown(key: Key, wanted: Row | None, found: Row | None) -> str:
    if wanted is None or found is None:
        return str(key)
    names = sorted(n for n in {*wanted, *found} if wanted.get(n) != found.get(n))
    pairs = (f"{n} {_brief(wanted.get(n))}, found {_brief(found.get(n))}" for n in names)
    return f"{key}: {'; '.join(pairs)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
