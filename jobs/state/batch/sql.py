"""The statements that make a batch's images of one mirror, and write them. Pure.

Staged records are read into typed rows, joined to the mirror's rows of their keys, and what is news
goes into the tables of images: the rows as they stood into ``old``, as they are into ``new``. One
statement does all of it, so that each record is parsed and each key looked up once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cdc.source.postgres import identifier, literal
from jobs.state.batch.image_tables import image_tables
from jobs.state.mirrors.table import LSN, ORDINAL, MirrorColumn, MirrorTable

_PARAMETER: Final = re.compile(r"\0(\w+)\0")
STAGED: Final = "pg_temp.staged"
STAGED_DEFINITION: Final = (
    "(n int not null, mirror int not null, "
    "shape int not null, op text not null, commit_lsn bigint not null, ordinal bigint not null, "
    "committed_us bigint, unchanged int[], read_lsn bigint, image text)"
)
STAGED_SQL: Final = f"create temporary table if not exists staged {STAGED_DEFINITION}"
STAGED_COLUMNS: Final = (
    "n, mirror, shape, op, commit_lsn, ordinal, committed_us, unchanged, read_lsn, image"
)
_GONE: Final = "(\0gone_lsn\0::bigint, \0gone_ordinal\0::bigint)"
LEFT_OUT: Final = "t.unchanged is not null and t.read_lsn is null"
"""Whether a typed record ``t`` has no value at all of some columns."""
Shape = tuple[str | None, ...]
"""What the events of a version call the stored columns of a mirror; None for one that they do not
have."""


class Traits(NamedTuple):
    """What a batch has of a mirror, which decides what its statement has to do.

    ``partial``: updates that leave out large values; ``deletes``; ``late``: snapshot rows, which
    may stand behind what deleted them; ``repeats``: records of one key may be several.
    """

    partial: bool = False
    deletes: bool = False
    late: bool = False
    repeats: bool = False


def images_sql(
    table: MirrorTable,
    mirror_id: int,
    shapes: tuple[Shape, ...],
    traits: Traits,
    staged: str = STAGED,
) -> str:
    """The statement that fills the tables of images of what ``staged`` (SQL) holds.

    Its parameters are ``mirror``, ``first`` and ``last`` (numbers of records), ``fill_lsn``,
    ``gone_lsn`` and ``gone_ordinal``, the newest TRUNCATE. It gives the numbers of old and new
    images, and those of the records that cannot be applied: whose large values the mirror does not
    have, and whose key is null.
    """
    old, new = image_tables(mirror_id)
    columns = table.stored
    names = ", ".join([*(column.quoted for column in columns), LSN, ORDINAL])
    values = ", ".join(_value(i, column, traits.partial) for i, column in enumerate(columns))
    held = ", ".join(f"o{i}" for i in range(len(columns)))
    applied = " and ".join(["op <> 'd'", *(["not lacking"] if traits.partial else [])])
    stood = "held and not lacking" if traits.partial else "held"
    unkeyed = _unkeyed(table)
    keyed = f" and not ({unkeyed})" if unkeyed else ""
    parts = [
        f"with typed as {_typed(table, shapes, traits.repeats, staged)}",
        f"news as materialized ({_news(table, traits)})",
        f"was as (insert into {old} ({names}) select {held}, o_lsn, o_ordinal from news "
        f"where {stood} returning 1)",
        f"is_now as (insert into {new} ({names}) select {values}, commit_lsn, ordinal from news "
        f"where {applied}{keyed} returning 1)",
    ]
    if traits.deletes:
        parts.append(f"gone as ({_tombstones(table, keyed)})")
    none = "'{}'::int[]"
    lacking = "array(select n from news where lacking)" if traits.partial else none
    null_key = f"array(select n from news where op <> 'd' and ({unkeyed}))" if unkeyed else none
    counts = "(select count(*) from was), (select count(*) from is_now)"
    return with_parameters(f"{', '.join(parts)} select {counts}, {lacking}, {null_key}")


def with_parameters(text: str) -> str:
    """Names may hold percent signs, which are none of a parameter's."""
    return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


def _typed(table: MirrorTable, shapes: Sequence[Shape], repeats: bool, staged: str) -> str:
    selects = [typed_shape(table, shape, number, staged) for number, shape in enumerate(shapes)]
    typed = " union all ".join(selects)
    numbers = _key_numbers(table)
    if table.one_text_a_key and not repeats:
        return f"({typed})"
    # Two keys in events may be one here: 1.0 became 1.00. The later record counts.
    keys = ", ".join(f"c{i}" for i in numbers)
    order = f"{keys}, commit_lsn desc, ordinal desc"
    keyed, without = "all_typed", ""
    if unkeyed := _unkeyed(table):
        keyed = f"all_typed where not ({unkeyed})"
        without = f"select * from all_typed where {unkeyed} union all "
    return (
        f"(with all_typed as materialized ({typed}) {without}"
        f"(select distinct on ({keys}) * from {keyed} order by {order}))"
    )


def typed_shape(table: MirrorTable, shape: Shape, number: int, staged: str = STAGED) -> str:
    """A SELECT of the staged records of one shape, read into typed columns ``c0``, ``c1``..."""
    read, values = [], []
    for i, (column, sent) in enumerate(zip(table.stored, shape, strict=True)):
        if sent is None:
            values.append(f"{_missing(column)} as c{i}")
            continue
        name = identifier(sent)
        read.append(f"{name} {column.form.read_as}")
        values.append(f"{column.form.value(f'x.{name}')} as c{i}")
    return (
        "select s.n, s.op, s.commit_lsn, s.ordinal, s.committed_us, s.unchanged, s.read_lsn, "
        f"{', '.join(values)} from {staged} s "
        f"cross join lateral json_to_record(s.image::json) as x({', '.join(read)}) "
        f"where s.mirror = \0mirror\0 and s.shape = {number} and s.op <> 't' "
        "and s.n between \0first\0 and \0last\0 and s.commit_lsn >= \0fill_lsn\0 "
        f"and (s.commit_lsn, s.ordinal) > {_GONE}"
    )


def _missing(column: MirrorColumn) -> str:
    """What rows have in it that were written before it was added."""
    if column.missing is None:
        return f"null::{column.sql}"
    if column.former:
        return column.form.value(f"{literal(column.missing)}::{column.form.read_as}")
    return f"{literal(column.missing)}::{column.sql}"


def _news(table: MirrorTable, traits: Traits) -> str:
    held = ", ".join(f"m.{column.quoted} as o{i}" for i, column in enumerate(table.stored))
    lacking = f"t.op = 'u' and {LEFT_OUT} and m.{LSN} is null"
    conditions = [f"(m.{LSN} is null or (t.commit_lsn, t.ordinal) > (m.{LSN}, m.{ORDINAL}))"]
    if traits.late or not table.one_text_a_key:
        conditions.append(
            f"not exists (select from {table.tombstones} g where {same_key(table, 'g', 't')} "
            f"and (g.{LSN}, g.{ORDINAL}) > (t.commit_lsn, t.ordinal))"
        )
    return (
        f"select t.*, m.{LSN} is not null as held, m.{LSN} as o_lsn, m.{ORDINAL} as o_ordinal, "
        f"{lacking if traits.partial else 'false'} as lacking, {held} from typed t "
        f"left join {table.relation} m on {same_key(table, 'm', 't')} "
        f"and (m.{LSN}, m.{ORDINAL}) > {_GONE} where {' and '.join(conditions)}"
    )


def _value(number: int, column: MirrorColumn, partial: bool) -> str:
    if not partial or column.sql in _FIXED:
        return f"c{number}"
    newer = "(read_lsn is null or (o_lsn, o_ordinal) > (read_lsn, 0))"
    return f"case when {number} = any(unchanged) and {newer} then o{number} else c{number} end"


_FIXED: Final = frozenset(
    ("smallint", "integer", "bigint", "oid", "real", "double precision", "boolean", "date", "uuid")
)
"""Types whose values are never large."""


def _tombstones(table: MirrorTable, keyed: str) -> str:
    keys = ", ".join(column.quoted for column in table.key_columns)
    values = ", ".join(f"c{i}" for i in _key_numbers(table))
    return (
        f"insert into {table.tombstones} as g ({keys}, {LSN}, {ORDINAL}, deleted_at) "
        f"select {values}, commit_lsn, ordinal, now() from news where op = 'd'{keyed} "
        f"on conflict ({keys}) do update set {LSN} = excluded.{LSN}, "
        f"{ORDINAL} = excluded.{ORDINAL}, deleted_at = excluded.deleted_at "
        f"where (excluded.{LSN}, excluded.{ORDINAL}) > (g.{LSN}, g.{ORDINAL})"
    )


def _key_numbers(table: MirrorTable) -> list[int]:
    names = [column.name for column in table.stored]
    return [names.index(name) for name in table.key]


def same_key(table: MirrorTable, one: str, typed: str) -> str:
    """Whether a row of the mirror, or of a table with its key, is of a typed record's key."""
    return " and ".join(
        f"{one}.{column.quoted} {column.equals} {typed}.c{i}"
        for column, i in zip(table.key_columns, _key_numbers(table), strict=True)
    )


def _unkeyed(table: MirrorTable) -> str:
    if not table.may_lack_key:
        return ""
    return " or ".join(f"c{i} is null" for i in _key_numbers(table))


def truncated_sql(table: MirrorTable, mirror_id: int) -> str:
    """The statement that adds the rows below a TRUNCATE, ``gone_lsn`` and ``gone_ordinal``, to the
    old images."""
    old, _ = image_tables(mirror_id)
    columns = [*(column.quoted for column in table.stored), LSN, ORDINAL]
    names = ", ".join(columns)
    return with_parameters(
        f"insert into {old} ({names}) select {names} from {table.relation} "
        f"where ({LSN}, {ORDINAL}) < {_GONE}"
    )


def write_sql(table: MirrorTable, mirror_id: int, *, deletes: bool) -> str:
    """The statement that makes the mirror's rows those of the new images. With ``deletes`` there
    are old images without new ones."""
    old, new = image_tables(mirror_id)
    columns = [*(column.quoted for column in table.stored), LSN, ORDINAL]
    names = ", ".join(columns)
    keys = ", ".join(column.quoted for column in table.key_columns)
    # Where keys that are equal have several texts, the row has the text of the last one.
    kept = {one.quoted for one in table.key_columns} if table.one_text_a_key else set()
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in kept)
    written = (
        f"insert into {table.relation} ({names}) select {names} from {new} "
        f"on conflict ({keys}) do update set {changed}"
    )
    if not deletes:
        return with_parameters(written)
    same = " and ".join(f"m.{one.quoted} {one.equals} o.{one.quoted}" for one in table.key_columns)
    again = " and ".join(f"n.{one.quoted} {one.equals} o.{one.quoted}" for one in table.key_columns)
    gone = (
        f"delete from {table.relation} m using {old} o where {same} "
        f"and not exists (select from {new} n where {again})"
    )
    return with_parameters(f"with gone as ({gone}) {written}")
