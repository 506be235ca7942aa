"""Which rows of a view wait, as its dead letters tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

import orjson

from cdc.errors import SourceError
from cdc.source.postgres import identifier, literal
from jobs.state.dead_letters.parked_keys import parked_keys
from jobs.state.server.connection import Connection
from jobs.without_mirrors.dead_letters.letter import Letters, spelled
from verification.change_window import packed_keys
from verification.scope import names_now, published_rows
from verification.source_rows import SourceSnapshot
from verification.topic_keys import key_reader
from views.spark.dialects import POSTGRES
from views.spark.plan import key_queries
from views.spark.resolution import ResolvedView
from views.spark.view import MaintainedView, View
from views.table_versions import TableVersion


def parked_rows(
    view: View,
    letters: Letters,
    source: SourceSnapshot,
    topic_of: Callable[[str, str], str],
    versions: Collection[TableVersion] = (),
) -> set[bytes]:
    """The packed keys of rows that wait, or whose tables' rows do. ``topic_of`` tells a table's
    topic, ``versions`` are those of a single table that letters may be of.

    Of a view over several tables those are told that such a row makes in the source. What it makes
    in the view, from its last good version, may be others.
    """
    if isinstance(view, ResolvedView):
        rows_of = key_reader(view, versions)
        keys = (owner.key for owner in letters.keys)
        found = (rows_of(key, "a dead letter") for key in keys if spelled(key))
        return {key for keys in found for key in keys}
    rows = set[bytes]()
    for query in _queries(view, letters, source, topic_of):
        with suppress(SourceError):  # a key in a form that is not PostgreSQL's: it is not told
            rows |= source.keys(query)
    return rows


def parked_in_state(conn: Connection, view_id: int) -> Callable[[SourceSnapshot], set[bytes]]:
    """Finds the packed keys of rows that wait in the state database, for a snapshot of the source;
    none where the source cannot read one of them."""

    def found(source: SourceSnapshot) -> set[bytes]:
        return packed_keys(source, [one.key for one in parked_keys(conn, view_id)]) or set()

    return found


def _queries(
    view: MaintainedView,
    letters: Letters,
    source: SourceSnapshot,
    topic_of: Callable[[str, str], str],
) -> Iterator[str]:
    if letters.rows:
        yield _own(view, [orjson.loads(key) for key in letters.rows], source.key_types)
    rows = published_rows(source.conn, view, source.publication, source.treated)
    for table in {table.name: table for table in view.tables.values()}.values():
        topic = topic_of(table.schema, table.table)
        keys = [owner.key for owner in letters.keys if owner.topic == topic]
        keys = [key for key in keys if spelled(key)]
        if not keys:
            continue
        relations = {
            alias: f"({rows(one.schema, one.table)})" for alias, one in view.tables.items()
        }
        now = names_now(source.conn, table, source.publication)
        changed = _of(table, keys, rows(table.schema, table.table), now)
        for query in key_queries(view):
            if query.table == table.name:
                yield query.sql(relations, changed, POSTGRES)


def _own(view: MaintainedView, keys: Sequence[dict[str, str]], types: Sequence[str]) -> str:
    """Rows of the view by their letters' texts."""
    columns = []
    for name, kind in zip(view.key, types, strict=True):
        texts = ", ".join(literal(key[name]) for key in keys)
        columns.append(f"unnest(array[{texts}]::text[])::{kind} as {identifier(name)}")
    return f"select {', '.join(columns)}"


def _of(table: TableVersion, keys: Sequence[bytes], rows: str, now: Mapping[str, str]) -> str:
    """Some rows of a table, by keys as events have them; ``now`` are the names of its columns."""
    record = f"null::{identifier(table.schema)}.{identifier(table.table)}"
    called = [[table.sent(part) or part for part in table.key], table.key]
    array = literal(f"[{','.join(_renamed(key, called, table, now) for key in keys)}]")
    wanted = (
        f"select {', '.join(f'p.{identifier(now.get(part, part))}' for part in table.key)}"
        f" from jsonb_populate_recordset({record}, {array}::jsonb) as p"
    )
    same = ", ".join(f"r.{identifier(part)}" for part in table.key)
    return f"(select r.* from ({rows}) as r where ({same}) in ({wanted}))"


def _renamed(
    key: bytes, called: Sequence[Sequence[str]], table: TableVersion, now: Mapping[str, str]
) -> str:
    """The key under the names of now, ``called`` being what it may have them by."""
    values = orjson.loads(key)
    for names in called:
        if tuple(values) == tuple(names):
            found = zip(table.key, names, strict=True)
            return orjson.dumps(
                {now.get(part, part): values[name] for part, name in found}
            ).decode()
    return key.decode()
