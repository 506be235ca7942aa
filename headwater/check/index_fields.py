"""The index of a view in OpenSearch: what the server says against it, and how many fields it would
have, with those that objects of JSON bring, and may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cdc.errors import HeadwaterError, ViewError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier

if TYPE_CHECKING:
    from cdc.config import OpenSearch, View

_TIMEOUT_S: Final = 5
_ABOVE_ALL: Final = 1 << 53
"""A priority that no template of the cluster has."""
_LIMIT: Final = "mapping.total_fields.limit"
_DEFAULT: Final = 1_000
"""OpenSearch's, of an index that says nothing else."""
_SAMPLE: Final = 1_000
"""So many rows are looked at."""
_NEAR: Final = 0.8
"""Of the limit: what other rows have is not known."""
_PATHS: Final = """
with recursive sampled as materialized (select {column} as v from ({sql}) s limit {rows}),
walked (path, v) as (
    select '{{}}'::text[], v from sampled
    union all
    select pg_catalog.array_append(w.path, n.name), n.v from walked w, lateral (
        select e.key, e.value from pg_catalog.jsonb_each(
            case pg_catalog.jsonb_typeof(w.v) when 'object' then w.v else '{{}}' end) e
        union all
        select null, a.value from pg_catalog.jsonb_array_elements(
            case pg_catalog.jsonb_typeof(w.v) when 'array' then w.v else '[]' end) a
    ) n (name, v)
),
found as (
    select pg_catalog.array_remove(path, null) as path,
           pg_catalog.bool_or(pg_catalog.jsonb_typeof(v) = 'string') as is_text
    from walked group by 1
)
select pg_catalog.count(*) + pg_catalog.count(*) filter (where is_text)
from found where path <> '{{}}'
"""
"""A text gets two fields: one to search in, one to compare with."""


class IndexFields(NamedTuple):
    """``known`` follow from the columns, ``found`` are those of objects in a sample of rows."""

    known: int
    found: int
    limit: int

    @property
    def fault(self) -> str:
        """What is wrong; empty where there is room."""
        count = self.known + self.found
        if count <= self.limit * (_NEAR if self.found else 1):
            return ""
        of = f", {self.found:,} of them of JSON in {_SAMPLE:,} rows," if self.found else ""
        return f"its index has {count:,} fields{of} and may have {self.limit:,}"

    @property
    def hint(self) -> str:
        """What can be done about it."""
        more = f'raise "{_LIMIT}" in the view\'s settings'
        return f'{more}, or make the JSON a field of type "flat_object"' if self.found else more


def ask_index(store: OpenSearch, view: str, body: dict[str, Any]) -> None:
    """Raise ``ViewError`` with what the server says against an index of such a body. One that does
    not answer says nothing, nor one that does not let us ask: that takes the right
    ``indices:admin/index_template/simulate``."""
    from jobs.sinks.opensearch.client import Client, server_of
    from jobs.sinks.opensearch.indexes import index_of

    wanted = {
        "index_patterns": [index_of(view, 1)],
        "priority": _ABOVE_ALL,
        "template": {name: body[name] for name in ("settings", "mappings")},
    }

    def asked(client: Client) -> None:
        client.indices.simulate_template(body=wanted, params={"request_timeout": _TIMEOUT_S})

    try:
        server_of(store, 0.0).declare(f"view {view}: its index", None, asked)
    except ViewError:
        raise
    except HeadwaterError:
        return


def index_fields(conn: Connection, name: str, view: View, sql: str, columns: Any) -> IndexFields:
    """Of a view in OpenSearch whose rows ``sql`` gives; ``columns`` are a ``StructType``.

    Raises ``ViewError`` for what cannot be indexed, ``SourceError`` where the sample cannot be
    read.
    """
    from jobs.sinks.opensearch.json_fields import DYNAMIC, json_fields
    from jobs.sinks.opensearch.mapping import index_body

    body = index_body(name, columns, view.key, (), view)
    known = sum(map(_count, body["mappings"]["properties"].values()))
    objects = [
        one
        for one in json_fields(name, columns, view.mapping)
        if view.mapping[one]["type"] in DYNAMIC
        and view.mapping[one].get("enabled", True) is True
        and view.mapping[one].get("dynamic", True) in (True, "true")
    ]
    found = sum(_sampled(conn, name, sql, column) for column in objects)
    return IndexFields(known, found, int(body["settings"].get(_LIMIT, _DEFAULT)))


def _count(field: Mapping[str, Any]) -> int:
    """A field, with those in it and those beside it."""
    inner = [*field.get("properties", {}).values(), *field.get("fields", {}).values()]
    return 1 + sum(map(_count, inner))


def _sampled(conn: Connection, name: str, sql: str, column: str) -> int:
    query = _PATHS.format(column=identifier(column), sql=sql, rows=_SAMPLE)
    with translated(f"counting the names in {column} of view {name}"), conn.transaction():
        conn.execute("set local search_path = pg_catalog, public")
        row = conn.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0
