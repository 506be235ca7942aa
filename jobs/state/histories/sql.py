"""The statements that make rows of a history of changes, and put them into its queue. Pure.

Changes of a table are read into a table of the session that has the mirror's columns, once for all
histories of the table. Then each history's SQL is computed for one change at a time: it reads the
row that the change left, or nothing where that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdc.source.postgres import identifier
from jobs.state.batch.sql import (
    LEFT_OUT,
    STAGED,
    Shape,
    Traits,
    same_key,
    typed_shape,
    with_parameters,
)
from jobs.state.mirrors.table import LSN, ORDINAL, MirrorTable
from jobs.state.views.rows_query import KEY, ROW
from jobs.state.views.store_rows import RowForm
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.view_record import QUEUE_SCHEMA
from views.histories import KeyColumn

_CHANGE: Final = "__change"
_BESIDE: Final = ("__change_n", "__change_op", "__change_us", "__change_lacks", "__change_late")
BEGINS: Final = "begins"
"""The field of ``headwater.views.plan`` that says above which LSN a history has every change."""
_QUEUED: Final = "batch, commit_lsn, ordinal, committed_us, op, gone, shape, texts"


def queue_table(view_id: int) -> str:
    """A generation's queue, as SQL."""
    return f"{QUEUE_SCHEMA}.v{view_id}"


def queue_sql(view_id: int) -> str:
    """The statement that makes it."""
    return (
        f"create table {queue_table(view_id)} ("
        "seq bigint generated always as identity primary key, batch bigint not null, "
        "commit_lsn bigint not null, ordinal bigint not null, committed_us bigint, "
        "op text not null, gone boolean not null, shape int not null, texts text[])"
    )


def begins_sql(view_id: int) -> str:
    """The LSN, as an expression, above which a history has every change of its table."""
    return f"(select (plan->>'{BEGINS}')::bigint from headwater.views where id = {view_id})"


def changes_table(mirror_id: int) -> str:
    """The session's table of a mirror's changes, as SQL."""
    return f"pg_temp.changes_{mirror_id}"


def changes_table_sql(table: MirrorTable, mirror_id: int) -> tuple[str, ...]:
    """The statements that make it anew, with exactly the mirror's columns and those beside them."""
    name = changes_table(mirror_id)
    n, op, us, lacks, late = _BESIDE
    return (
        f"drop table if exists {name}",
        f"create temporary table {name.removeprefix('pg_temp.')} "
        f"(like {table.relation} including generated)",
        f"alter table {name} add {n} int not null, add {op} text not null, add {us} bigint, "
        f"add {lacks} boolean not null, add {late} boolean not null",
    )


def changes_sql(table: MirrorTable, mirror_id: int, shapes: Sequence[Shape], traits: Traits) -> str:
    """The statement that reads staged changes into the session's table; parameters as those of
    ``batch_sql.images_sql``, of which ``gone_lsn`` and ``gone_ordinal`` are 0, and the position of
    the newest TRUNCATE that the mirror has carried out.

    A row that was read by a snapshot and that the mirror knows a later change of is late.
    What an update left out is what the mirror has, which is as it was before the batch: but not if
    a row of a snapshot that the update has it from is newer.
    """
    names = [*(column.quoted for column in table.stored), LSN, ORDINAL, *_BESIDE]
    values = [_value(i, table, traits.partial) for i in range(len(table.stored))]
    lacking = (
        f"(t.op = 'u' and {LEFT_OUT} and (m.{LSN} is null "
        f"or (m.{LSN}, m.{ORDINAL}) > (t.commit_lsn, t.ordinal)))"
    )
    values += ["t.commit_lsn", "t.ordinal", "t.n", "t.op", "t.committed_us"]
    values.append(lacking if traits.partial else "false")
    values.append(_late(table) if traits.late else "false")
    typed = " union all ".join(
        typed_shape(table, shape, number) for number, shape in enumerate(shapes)
    )
    found = f"({typed}) t"
    if traits.partial or traits.late:
        found += f" left join {table.relation} m on {same_key(table, 'm', 't')}"
    return with_parameters(
        f"insert into {changes_table(mirror_id)} ({', '.join(names)}) "
        f"select {', '.join(values)} from {found}"
    )


def _late(table: MirrorTable) -> str:
    return (
        f"(t.op = 'r' and ((t.commit_lsn, t.ordinal) <= (m.{LSN}, m.{ORDINAL}) "
        "or (t.commit_lsn, t.ordinal) < (\0truncated_lsn\0, \0truncated_ordinal\0) "
        f"or exists (select from {table.tombstones} g where {same_key(table, 'g', 't')} "
        f"and (g.{LSN}, g.{ORDINAL}) > (t.commit_lsn, t.ordinal)))) is true"
    )


def lacking_sql(mirror_id: int) -> str:
    """The statement that tells the numbers of changes whose values are not known."""
    n, _, _, lacks, _ = _BESIDE
    return f"select {n} from {changes_table(mirror_id)} where {lacks}"


def put_sql(view: ViewGeneration, form: RowForm, keys: Sequence[KeyColumn], mirror_id: int) -> str:
    """The statement that queues what a history's rows are behind each change; its parameters are
    ``batch`` and ``shape``; ``keys`` are the key's columns. It gives the
    numbers of changes whose rows the view's columns cannot hold, with the column.

    A late row is what the source was where it was read, and takes its place there if the history
    has all changes since: it is left out below what it ``begins`` at.
    """
    n, op, us, lacks, late = _BESIDE
    selected = f"(select {_CHANGE}.* where {_CHANGE}.{op} <> 'd')"
    made = _made(view, form, keys, changes_table(mirror_id), selected, [n, op, us])
    return with_parameters(
        f"with made as materialized ({made} where not {_CHANGE}.{lacks} "
        f"and (not {_CHANGE}.{late} or {_CHANGE}.{LSN} > {begins_sql(view.id)})), "
        f"queued as (insert into {queue_table(view.id)} ({_QUEUED}) "
        f"select \0batch\0, {LSN}, {ORDINAL}, {us}, {op}, gone, \0shape\0, texts from made "
        f"where unfit is null order by {n}) "
        f"select {n}, unfit from made where unfit is not null"
    )


def truncates_sql(view: ViewGeneration) -> str:
    """The statement that queues the TRUNCATEs among staged records; parameters ``batch``,
    ``shape``, ``mirror`` and ``fill_lsn``."""
    return with_parameters(
        f"insert into {queue_table(view.id)} ({_QUEUED}) "
        "select \0batch\0, s.commit_lsn, s.ordinal, s.committed_us, s.op, true, \0shape\0, null "
        f"from {STAGED} s where s.mirror = \0mirror\0 and s.op = 't' "
        "and s.commit_lsn >= \0fill_lsn\0 order by s.n"
    )


def whole_sql(view: ViewGeneration, form: RowForm, keys: Sequence[KeyColumn], relation: str) -> str:
    """A SELECT of all rows that a mirror makes now: the position of each, its texts, and the column
    that does not fit."""
    made = _made(view, form, keys, relation, f"(select {_CHANGE}.*)", [])
    return f"select {LSN}, {ORDINAL}, texts, unfit from ({made}) made where not gone"


def keys_sql(view: ViewGeneration, form: RowForm, keys: Sequence[KeyColumn], relation: str) -> str:
    """The same of rows that need not be made: only the key is there."""
    made = _made(view, form, keys, relation, f"(select {_CHANGE}.* where false)", [])
    return f"select {LSN}, {ORDINAL}, texts, null::text as unfit from ({made}) made"


def last_known_sql(
    view: ViewGeneration, form: RowForm, keys: Sequence[KeyColumn], table: MirrorTable
) -> str:
    """The same of all keys that a mirror has or had: where each was changed or deleted last."""
    names = ", ".join([*(column.quoted for column in table.key_columns), LSN, ORDINAL])
    either = " union all ".join(
        f"select {names} from {relation}" for relation in (table.relation, table.tombstones)
    )
    nothing = f"(select * from {table.relation} where false)"
    made = _made(view, form, keys, f"({either})", nothing, [])
    return f"select {LSN}, {ORDINAL}, texts, null::text as unfit from ({made}) made order by 1, 2"


def _made(
    view: ViewGeneration,
    form: RowForm,
    keys: Sequence[KeyColumn],
    relation: str,
    selected: str,
    beside: Sequence[str],
) -> str:
    """A SELECT of the row that the history's SQL makes of each row of ``relation``: its position,
    ``beside``, ``texts`` (the key, and all values), whether it is ``gone``, the column that does
    not fit. A condition may follow."""
    (label,) = view.plan.reads

    def one_row(_: str) -> str:
        named = view.names.reading(label, selected)
        return named if named != selected else f"{selected} as one_row"

    key = ", ".join(map(_key_column, keys))
    _, unfit, gone, *values = form.expressions(ROW, KEY)
    shown = [LSN, ORDINAL, *beside]
    return (
        f"select {', '.join(f'{_CHANGE}.{name}' for name in shown)}, "
        f"array[{', '.join(values)}]::text[] as texts, ({gone})::boolean as gone, "
        f"{unfit} as unfit from {relation} {_CHANGE} cross join lateral (select {key}) {KEY} "
        f"left join lateral ({view.plan.whole(one_row)}) {ROW} on true"
    )


def _key_column(one: KeyColumn) -> str:
    cast = "::text" if one.is_text else ""
    return f"{_CHANGE}.{identifier(one.of)}{cast} as {identifier(one.name)}"


def _value(number: int, table: MirrorTable, partial: bool) -> str:
    if not partial:
        return f"t.c{number}"
    held = f"m.{table.stored[number].quoted}"
    place = f"(m.{LSN}, m.{ORDINAL})"
    newer = f"{place} > (t.read_lsn, 0) and {place} <= (t.commit_lsn, t.ordinal)"
    known = f"{number} = any(t.unchanged) and (t.read_lsn is null or {newer})"
    return f"case when {known} then {held} else t.c{number} end"
