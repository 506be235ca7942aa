"""The SQL that makes a view's rows over the mirrors: of dirty keys, of all keys, for a load. Pure.

Each statement reads the mirrors, the view's tables and the progress in one snapshot, so the rows
and the position they are written under belong together. It gives what differs from what the store
was given: a row that was made to what it is there is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobs.state.batch.sql import with_parameters
from jobs.state.views.dirty_keys import HELD
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_generation import KeyColumn, ViewGeneration, quoted

ROW: Final = "m"
"""What a row of the view is called where something is shown of it."""
KEY: Final = "t"
"""What has its key there, also where the row is gone."""
_ARRAY, _ROWS = "ANY(ARRAY(SELECT ", "ANY((SELECT "
PROGRESS: Final = "p.batch, p.lsn, p.total, p.committed_at"


def dirty_rows_sql(view: ViewGeneration, shown: Sequence[str]) -> str:
    """The rows of the dirty keys that stand at the places ``$1``, where they differ.

    ``shown`` are expressions over ``ROW`` and ``KEY``. Columns: the progress, the digest of the
    row (NULL: it is gone), the key's columns as text, and ``shown``. One row without a key tells
    the progress where nothing differs.
    """
    taken = f"select {view.key_names} from {view.dirty} where ctid = any($1::tid[])"
    return _rows_sql(view, shown, f"materialized ({taken})")


def many_rows_sql(view: ViewGeneration, shown: Sequence[str]) -> str | None:
    """The same of the keys that ``dirty_keys.hold`` holds. How many they are is known to who plans
    it: tables are joined as a whole where that is quicker than key by key, for which keys have to
    be rows and not an array. None where the view's own SQL has such arrays."""
    if _ARRAY in view.plan.whole(view.relation):
        return None
    held = f"not materialized (select {view.key_names} from {HELD})"
    return _rows_sql(view, shown, held).replace(_ARRAY, _ROWS)


def _rows_sql(view: ViewGeneration, shown: Sequence[str], taken: str) -> str:
    made = view.rows("taken")
    joined = _same(view, "m", "t")
    held = _same(view, "s", "t")
    return (
        f"with taken as {taken}, made as materialized ({made}), "
        f"differing as (select {_columns(view, 't', shown)} from taken t "
        f"left join made m on {joined} left join {view.shown} s on {held} "
        f"where {_digest(view)} is distinct from s.{own_columns(view.key).digest}) "
        f"select {PROGRESS}, d.* from headwater.progress p left join differing d on true"
    )


def all_rows_sql(view: ViewGeneration, shown: Sequence[str]) -> str:
    """The rows of the whole view that differ, and the keys that have none any more; of a view of
    more than ``%(at_most)s`` rows the first column behind the progress is true, and nothing else
    counts."""
    made = view.plan.whole(view.relation)
    held = _same(view, "s", "m")
    keys = ", ".join(f"coalesce(m.{n}, s.{n}) as {n}" for n in map(_name, view.key))
    over = "(select count(*) from made) > \0at_most\0"
    own = own_columns(view.key)
    return with_parameters(
        f"with made as materialized (select * from ({made}) w limit \0at_most\0 + 1), "
        f"t as (select {keys}, s.{own.digest} as {own.held} from made m "
        f"full join {view.shown} s on {held}), "
        f"differing as (select {_columns(view, 't', shown)} from t "
        f"left join made m on {_same(view, 'm', 't')} "
        f"where {_digest(view)} is distinct from t.{own.held}) "
        f"select {PROGRESS}, {over}, d.* from headwater.progress p left join differing d on true"
    )


def load_sql(view: ViewGeneration, shown: Sequence[str]) -> str:
    """All rows of the view: the key's columns of each as text, and ``shown``."""
    made = view.plan.whole(view.relation)
    given = ", ".join([*_keys(view, "m"), *shown])
    return f"select {given} from ({made}) m, lateral (select m.*) t"


def remember_sql(view: ViewGeneration) -> tuple[str, ...]:
    """The statements that remember all rows of the view as what its store was given."""
    names = view.key_names
    made = view.plan.whole(view.relation)
    index = quoted(f"v{view.id}_pkey")
    return (
        f"truncate {view.shown}",
        f"alter table {view.shown} drop constraint {index}",  # quicker made of all rows at once
        f"insert into {view.shown} ({names}, {own_columns(view.key).digest}) "
        f"select {names}, {_digest(view)} from ({made}) m",
        f"alter table {view.shown} add constraint {index} primary key ({names})",
        f"analyze {view.shown}",
    )


def _columns(view: ViewGeneration, keys: str, shown: Sequence[str]) -> str:
    return ", ".join([f"{_digest(view)} as digest", *_keys(view, keys), *shown])


def _keys(view: ViewGeneration, relation: str) -> list[str]:
    return [f"{relation}.{_name(column)}::text" for column in view.key]


def _digest(view: ViewGeneration) -> str:
    """Of the row's text; NULL where there is none. A row of NULLs is one: its key is none.

    A row that has nothing in the columns which the view got later is what it was without them.
    """
    key = f"m.{_name(view.key[0])} is not null"
    first = view.first_columns
    added = [column for column in view.plan.columns if first and column not in first]
    if not added or not set(first) <= set(view.plan.columns):
        return f"case when {key} then md5((m.*)::text)::uuid end"
    nothing = " and ".join(f"m.{quoted(column)} is not distinct from null" for column in added)
    before = ", ".join(f"m.{quoted(column)}" for column in first)
    return (
        f"case when {key} then md5(case when {nothing} then row({before})::text "
        "else (m.*)::text end)::uuid end"
    )


def _same(view: ViewGeneration, one: str, other: str) -> str:
    return " and ".join(f"{one}.{n} = {other}.{n}" for n in map(_name, view.key))


def _name(column: KeyColumn) -> str:
    return quoted(column.name)
