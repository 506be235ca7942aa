"""The dirty keys of a view: put there by batches, taken by whoever keeps its store.

A batch finds keys twice, on the state before and on the state after (``views.maintain``), in its
own transaction. A key stays dirty until its row was written from a state that has the batch which
dirtied it last: ``settle`` deletes no key that a later batch has dirtied again, so whatever is
killed between the store and the state database is done again, with the same effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from jobs.state.server.connection import Connection
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_generation import KeyColumn, ViewGeneration, quoted

State = Literal["before", "after"]
Images = dict[str, tuple[str, str]]
"""By ``schema.table``: the relations that hold the old and the new images of its changed rows."""

FORGOTTEN: Final = "00000000-0000-0000-0000-000000000000"
"""A digest that no row has: what the store holds of the key is not known."""
NEVER: Final = (1 << 63) - 1
"""A batch that will not be."""
_WHOLE: Final = "(select whole_first_seq from headwater.views where id = %s)"


HELD: Final = "pg_temp.held"
"""The keys of one turn that makes many rows."""

SURE: Final = 0
"""Dirty since before all batches, and not written by anybody since it is so."""


class Taken(NamedTuple):
    """Dirty keys to be made anew: where they stand in the view's table of them. ``whole``: the
    first batch since the view was computed whole, None where nothing asks for it."""

    places: list[str]
    more: bool
    """Whether there are others."""
    whole: int | None = None


def mark_sql(view: ViewGeneration, images: Images, state: State, large: bool = False) -> str | None:
    """The statement that dirties the keys which changed rows touch in a state of the mirrors;
    ``$1`` is the batch. None where no query of the view is of these tables.

    Of a ``large`` batch all images are taken: to leave out those of which the view sees no change
    costs more than the few keys that only they touch. Tables without a change are among them for
    nothing: their images are empty.
    """

    def known(table: str) -> tuple[str, str]:
        old, new = images[table]
        return view.names.reading(table, old), view.names.reading(table, new)

    def both(table: str) -> str:
        old, new = known(table)
        return f"(select * from {old} union all select * from {new})"

    parts = []
    for query in view.plan.key_queries:
        if query.table not in images:
            continue
        old, new = known(query.table)
        if large:
            exact = old if state == "before" else new
            changed = both(query.table) if query.flavour == "beside" else exact
        else:
            changed = view.plan.changed(query, old, new, state)
        parts.append(query.sql(view.relation, changed, both))
    if not parts:
        return None
    found = " union ".join(f"({part})" for part in parts)
    own = own_columns(view.key)
    return (
        f"insert into {view.dirty} ({view.key_names}, {own.seq}, {own.first_seq}) "
        f"select {view.key_names}, $1, $1 from ({found}) found "
        f"on conflict ({view.key_names}) do update set {own.seq} = excluded.{own.seq}"
    )


def mark_all_sql(view: ViewGeneration) -> str:
    """The statement that dirties every key which the store has a row of, since ``%(since)s``."""
    own = own_columns(view.key)
    return (
        f"insert into {view.dirty} ({view.key_names}, {own.seq}, {own.first_seq}) "
        f"select {view.key_names}, %(batch)s, %(since)s from {view.shown} "
        f"on conflict ({view.key_names}) do update set {own.seq} = excluded.{own.seq}"
    )


def take(conn: Connection, view: ViewGeneration, at_most: int) -> Taken:
    """The keys that have waited longest."""
    first = own_columns(view.key).first_seq
    query = f"select array(select ctid::text from {view.dirty} order by {first} limit %s), {_WHOLE}"
    row = conn.execute(query.encode(), (at_most + 1, view.id), prepare=True).fetchone()
    assert row is not None, "a SELECT without FROM has one row"
    return Taken(row[0][:at_most], len(row[0]) > at_most, row[1])


def hold(conn: Connection, view: ViewGeneration, taken: Sequence[str]) -> None:
    """Put keys that were taken into ``HELD``, until the caller's transaction ends."""
    names = view.key_names
    statements: tuple[tuple[str, Sequence[object]], ...] = (
        (f"create temporary table held on commit drop as select {names} from {view.dirty} "
         "with no data", ()),
        (f"insert into {HELD} select {names} from {view.dirty} where ctid = any(%s::tid[])",
         (list(taken),)),
        (f"analyze {HELD}", ()),
    )  # fmt: skip
    for statement, parameters in statements:
        conn.execute(statement.encode(), parameters)


def doubt(conn: Connection, view: ViewGeneration, before: int = NEVER) -> None:
    """What the store holds of dirty keys is not known: a write to it may have been cut off, of rows
    that have changed back since. All of them are written again, or deleted, whatever they are, but
    for those that were clean before the batch ``before``: nobody has written them since."""
    own = own_columns(view.key)
    first, digest = own.first_seq, own.digest
    query = (
        f"insert into {view.shown} ({view.key_names}, {digest}) "
        f"select {view.key_names}, '{FORGOTTEN}' from {view.dirty} where {first} < %(before)s "
        f"and ({first} <> {SURE} or %(before)s = {NEVER}) "
        f"on conflict ({view.key_names}) do update set {digest} = excluded.{digest}"
    )
    conn.execute(query.encode(), {"before": before})


def doubt_keys(conn: Connection, view: ViewGeneration, keys: Sequence[Sequence[str]]) -> None:
    """The same of these keys, which are about to be written and are not dirty by themselves: it
    has to last before they are."""
    if keys:
        with conn.transaction():
            conn.execute(b"set local synchronous_commit = on")
            _remember(conn, view, [(key, FORGOTTEN) for key in keys])


def put_off(conn: Connection, view: ViewGeneration, keys: Sequence[Sequence[str]]) -> None:
    """These keys are dirty, and the store holds nothing of them; in the caller's transaction."""
    if not keys:
        return
    names, condition = _keys(view.key)
    columns = _columns(keys)
    gone = f"delete from {view.shown} s using unnest({names[0]}) as k({names[1]}) where {condition}"
    conn.execute(gone.encode(), columns)
    values = ", ".join(f"k.c{i}::{column.type}" for i, column in enumerate(view.key))
    own = own_columns(view.key)
    query = (
        f"insert into {view.dirty} ({view.key_names}, {own.seq}, {own.first_seq}) "
        f"select {values}, p.batch, p.batch from headwater.progress p, "
        f"unnest({names[0]}) as k({names[1]}) on conflict ({view.key_names}) do nothing"
    )
    conn.execute(query.encode(), columns)


def settle(
    conn: Connection,
    view: ViewGeneration,
    taken: Sequence[str],
    batch: int,
    written: Iterable[tuple[Sequence[str], str]],
    gone: Iterable[Sequence[str]],
) -> int | None:
    """The store holds the rows of ``taken`` keys as of ``batch``: noted by one statement, which
    gives the first batch that the view has not written yet, None where it has all.

    ``written`` are keys, each value as text, with the digest of what the store was given, ``gone``
    those whose rows it has no more. What a later batch has dirtied again stays dirty.
    """
    rows, keys = list(written), list(gone)
    width = len(view.key)
    remembered = _columns([(*key, digest) for key, digest in rows]) or [[]] * (width + 1)
    forgotten = _columns(keys) or [[]] * width
    parameters = (*remembered, *forgotten, list(taken), batch, view.id)
    query = _settle_sql(view.dirty, view.shown, tuple(view.key))
    row = conn.execute(query, parameters, prepare=True).fetchone()
    return None if row is None else row[0]


@lru_cache(maxsize=1024)
def _settle_sql(dirty: str, shown: str, key: tuple[KeyColumn, ...]) -> bytes:
    # What a batch is at now has a later one behind it: it stays dirty, and nobody waits for it,
    # who might wait for a key of this transaction.
    own, ((arrays, aliases), same) = own_columns(key), _keys(key)
    locked = (
        f"select ctid from {dirty} where ctid = any(%s::tid[]) and {own.seq} <= %s "
        "for update skip locked"
    )
    waiting = (
        f"select {own.first_seq} from {dirty} "
        f"where ctid not in (select ctid from settled) order by {own.first_seq} limit 1"
    )
    return (
        f"with remembered as ({_remember_sql(shown, key)}), "
        f"gone as (delete from {shown} s using unnest({arrays}) as k({aliases}) where {same}), "
        f"settled as (delete from {dirty} where ctid = any(array({locked})) returning ctid) "
        f"select least(({waiting}), {_WHOLE})"
    ).encode()


def waits_since(conn: Connection, view: ViewGeneration) -> int | None:
    """The first batch that the view has not written yet; None where it has all."""
    first = own_columns(view.key).first_seq
    query = f"select least((select min({first}) from {view.dirty}), {_WHOLE})"
    row = conn.execute(query.encode(), (view.id,), prepare=True).fetchone()
    return None if row is None else row[0]


def reached(waiting: int | None, batch: int) -> int:
    """The last batch that a view's store holds whole, of those up to ``batch``."""
    return min((NEVER if waiting is None else waiting) - 1, batch)


def _remember(
    conn: Connection, view: ViewGeneration, rows: Sequence[tuple[Sequence[str], str]]
) -> None:
    columns = _columns([(*key, digest) for key, digest in rows])
    query = _remember_sql(view.shown, tuple(view.key))
    conn.execute(query.encode(), columns, prepare=True)


def _remember_sql(shown: str, key: Sequence[KeyColumn]) -> str:
    digest = own_columns(key).digest
    names = ", ".join([*(quoted(column.name) for column in key), digest])
    types = [*(column.type for column in key), "uuid"]
    values = ", ".join(f"k.c{i}::{kind}" for i, kind in enumerate(types))
    arrays = ", ".join("%s::text[]" for _ in types)
    aliases = ", ".join(f"c{i}" for i in range(len(types)))
    conflict = ", ".join(quoted(column.name) for column in key)
    return (
        f"insert into {shown} ({names}) "
        f"select {values} from unnest({arrays}) as k({aliases}) "
        f"on conflict ({conflict}) do update set {digest} = excluded.{digest}"
    )


def _keys(key: Sequence[KeyColumn]) -> tuple[tuple[str, str], str]:
    arrays = ", ".join("%s::text[]" for _ in key)
    aliases = ", ".join(f"c{i}" for i in range(len(key)))
    same = " and ".join(
        f"s.{quoted(column.name)} = k.c{i}::{column.type}" for i, column in enumerate(key)
    )
    return (arrays, aliases), same


def _columns(keys: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*keys, strict=True)]
