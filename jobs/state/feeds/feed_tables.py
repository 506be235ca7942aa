"""What a generation of a view has beside its store where its changes are served: the rows that the
store holds, by key, and the newest changes of them, in order.

``feed_rows.v<id>`` has the JSON of each row. ``feed_log.v<id>`` has the changes (``feed_log``).
``headwater.feeds`` says which generation readers of the store see: their stream is of that one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg.types.json import Jsonb

from jobs.sinks.postgres.quoting import ident
from jobs.sinks.redis.layout import Shape
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.server.connection import Connection
from jobs.state.values.document_sql import DocumentSql
from jobs.state.views.rows_query import KEY, ROW, load_sql
from jobs.state.views.view_columns import ViewColumn
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.view_record import FEED_LOG_SCHEMA, FEED_ROWS_SCHEMA

_EPOCH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Feed:
    """Of one generation; ``columns`` are the view's, ``key`` names those of its key. ``old_rows``:
    the row before an update is logged, too."""

    view_id: int
    columns: tuple[ViewColumn, ...]
    key: tuple[str, ...]
    old_rows: bool = False

    @property
    def rows(self) -> str:
        return f"{FEED_ROWS_SCHEMA}.v{self.view_id}"

    @property
    def log(self) -> str:
        return f"{FEED_LOG_SCHEMA}.v{self.view_id}"

    @property
    def shown(self) -> tuple[str, ...]:
        """SQL over ``ROW`` and ``KEY``: the JSON of the key, and that of the row, NULL where it is
        gone, or holds what JSON of it cannot."""
        whole = DocumentSql(self.columns, self.key, Shape())
        of_key = tuple(one for name in self.key for one in self.columns if one.name == name)
        fits = f"{ROW}.{ident(self.key[0])} is not null"
        if unfit := whole.unfit(ROW):
            fits += f" and {unfit} is null"
        body = f"case when {fits} then {whole.body(ROW)} end"
        return DocumentSql(of_key, self.key, Shape()).body(KEY), body


def make_feed(conn: Connection, view_id: int, name: str) -> None:
    """Make the tables of a new generation, in the caller's transaction."""
    rows, log = f"{FEED_ROWS_SCHEMA}.v{view_id}", f"{FEED_LOG_SCHEMA}.v{view_id}"
    position = "lsn bigint not null, ordinal bigint not null"
    conn.execute(
        f'create table {rows} (key text[] collate "C" primary key, told text not null, '
        f"row text not null, {position})".encode()
    )
    conn.execute(
        f"create table {log} (seq bigint primary key, told text not null, row text not null, "
        f"op text not null, {position}, at timestamptz not null, was text)".encode()
    )
    conn.execute(
        b"insert into headwater.feeds (view_id, name, epoch, columns) values (%s, %s, %s, '[]')",
        (view_id, name, secrets.token_hex(_EPOCH_BYTES)),
    )


def opened_feed(
    conn: Connection,
    view_id: int,
    wanted: bool,
    columns: Sequence[ViewColumn],
    key: Sequence[str],
    old_rows: bool,
) -> Feed | None:
    """The feed that a generation was made with, in the caller's transaction; one that is no longer
    ``wanted`` is dropped. A generation that was made without one has none: what its store holds
    was not kept."""
    query = b"select columns, old_rows from headwater.feeds where view_id = %s"
    row = conn.execute(query, (view_id,)).fetchone()
    if row is None:
        return None
    if not wanted:
        drop_feed(conn, view_id)
        return None
    described = [_described(column) for column in columns]
    if tuple(row) != (described, old_rows):
        query = b"update headwater.feeds set columns = %s, old_rows = %s where view_id = %s"
        conn.execute(query, (Jsonb(described), old_rows, view_id))
    return Feed(view_id, tuple(columns), tuple(key), old_rows)


def fill_feed(conn: Connection, feed: Feed, view: ViewGeneration) -> None:
    """The rows that the store is filled with, in the transaction that makes them."""
    keys = ", ".join(f"k{number}" for number in range(len(view.key)))
    position = read_progress(conn).position
    empty_feed(conn, feed)
    conn.execute(
        f"insert into {feed.rows} select array[{keys}], told, row, "
        f"{position.commit_lsn}, {position.ordinal} "
        f"from ({load_sql(view, feed.shown)}) made({keys}, told, row) "
        "where row is not null".encode()
    )
    query = b"update headwater.feeds set lsn = %s where view_id = %s"
    conn.execute(query, (position.commit_lsn, feed.view_id))


def empty_feed(conn: Connection, feed: Feed) -> None:
    """The store holds no rows yet."""
    conn.execute(f"truncate {feed.rows}".encode())


def begin_filling(conn: Connection, feed: Feed) -> None:
    """The store is empty, and is filled in turns, in the caller's transaction: what they write are
    rows that the build found, and no changes."""
    empty_feed(conn, feed)
    query = b"update headwater.feeds set filling = true where view_id = %s"
    conn.execute(query, (feed.view_id,))


def end_filling(conn: Connection, feed: Feed) -> None:
    """What is written from now on are changes."""
    query = b"update headwater.feeds set filling = false where view_id = %s and filling"
    conn.execute(query, (feed.view_id,))


def show_feed(conn: Connection, name: str, view_id: int) -> None:
    """Readers of the view's store see this generation from now on. Each alert of the view has a
    place in its log by then: the oldest change that is kept, unless it had been there before."""
    hide = b"update headwater.feeds set shown = false where name = %s and shown and view_id <> %s"
    show = (
        b"with made as (update headwater.feeds set shown = true, filling = false "
        b"where view_id = %s and not shown returning name, epoch, trimmed), "
        b"placed as (insert into headwater.view_alert_places (alert, epoch, number) "
        b"select a.alert, m.epoch, m.trimmed + 1 "
        b"from made m join headwater.view_alerts a on a.view = m.name on conflict do nothing) "
        b"insert into headwater.feed_shows (name, epoch) select name, epoch from made"
    )
    with conn.transaction():
        conn.execute(hide, (name, view_id))
        conn.execute(show, (view_id,))


def drop_feed(conn: Connection, view_id: int) -> None:
    """Keep no changes of a generation any more, in the caller's transaction."""
    for schema in (FEED_ROWS_SCHEMA, FEED_LOG_SCHEMA):
        conn.execute(f"drop table if exists {schema}.v{view_id}".encode())
    conn.execute(b"delete from headwater.feeds where view_id = %s", (view_id,))


def _described(column: ViewColumn) -> dict[str, Any]:
    kind = column.type
    return {
        "name": column.name,
        "schema": kind.schema,
        "type": kind.name,
        "kind": kind.kind,
        "base": kind.base,
        "typmod": column.typmod,
    }
