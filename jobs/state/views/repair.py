"""Rows that are written to a view's store again, though nothing of the source changed.

Their keys become dirty under a batch of its own, so that they are written under a position newer
than that of any row in the store; and what the store was given of them is forgotten, so that a row
is written also where nobody knows that it differs, and deleted where the view has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from jobs.state.batch.stream_offsets import advance
from jobs.state.server.connection import Connection, translated
from jobs.state.views.dirty_keys import FORGOTTEN
from jobs.state.views.generation_keys import KeyTables
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_generation import ViewGeneration, quoted

_PART_KEYS: Final = 10_000
_WAITING: Final = """
select exists (select from {dirty} where {first} <= %(batch)s) or exists (
    select from headwater.views where id = %(id)s and whole_first_seq <= %(batch)s)
"""


class Anew(NamedTuple):
    """The batch that keys are dirty under, for ``is_written``, and how many they are."""

    batch: int
    keys: int


def make_anew(
    conn: Connection, view: KeyTables, keys: Iterable[Sequence[str]] | None = None
) -> Anew:
    """Have the rows of ``keys`` written again, each key with its values as text. None stands for
    all that the store was given and, of a ``ViewGeneration``, all that the view has.

    Whoever keeps the view writes them. In the caller's transaction, or in one of its own.
    """
    with translated("marking rows that are to be written again"), conn.transaction():
        batch = advance(conn).batch
        if keys is None:
            count = _mark_all(conn, view, batch)
        else:
            count = sum(_mark(conn, view, part, batch) for part in _parts(keys))
    return Anew(batch, count)


def is_written(conn: Connection, view: KeyTables, batch: int) -> bool:
    """Whether the store holds all that was dirty up to a batch, but for the rows of parked keys."""
    query = _WAITING.format(dirty=view.dirty, first=own_columns(view.key).first_seq)
    with translated("looking whether rows have been written again"):
        row = conn.execute(query.encode(), {"batch": batch, "id": view.id}).fetchone()
    return row is not None and not row[0]


def _mark(conn: Connection, view: KeyTables, keys: Sequence[Sequence[str]], batch: int) -> int:
    values = ", ".join(f"k.c{i}::{column.type}" for i, column in enumerate(view.key))
    arrays = ", ".join("%s::text[]" for _ in view.key)
    aliases = ", ".join(f"c{i}" for i in range(len(view.key)))
    found = f"select distinct {values} from unnest({arrays}) as k({aliases})"
    columns = [list(column) for column in zip(*keys, strict=True)]
    names, digest = view.key_names, own_columns(view.key).digest
    forget = (
        f"insert into {view.shown} ({names}, {digest}) "
        f"select f.*, '{FORGOTTEN}'::uuid from ({found}) f "
        f"on conflict ({names}) do update set {digest} = excluded.{digest}"
    )
    # As ``settle`` has it, dirty keys first: two that wait for each other are one too many.
    marked = conn.execute(_dirty(view, found, batch).encode(), columns)
    conn.execute(forget.encode(), columns)
    return marked.rowcount


def _mark_all(conn: Connection, view: KeyTables, batch: int) -> int:
    digest = own_columns(view.key).digest
    found = f"select {view.key_names} from {view.shown}"
    if isinstance(view, ViewGeneration):
        made = ", ".join(f"w.{quoted(column.name)}" for column in view.key)
        found += f" union select {made} from ({view.plan.whole(view.relation)}) w"
    marked = conn.execute(_dirty(view, found, batch).encode())
    conn.execute(f"update {view.shown} set {digest} = '{FORGOTTEN}'::uuid".encode())
    return marked.rowcount


def _dirty(view: KeyTables, found: str, batch: int) -> str:
    names, own = view.key_names, own_columns(view.key)
    return (
        f"insert into {view.dirty} ({names}, {own.seq}, {own.first_seq}) "
        f"select f.*, {batch}, {batch} from ({found}) f "
        f"on conflict ({names}) do update set {own.seq} = excluded.{own.seq}"
    )


def _parts(keys: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    left = iter(keys)
    while part := list(islice(left, _PART_KEYS)):
        yield part
