"""What a batch changes in a mirror: the rows as they were, and as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdc.events.codes import TRUNCATE
from cdc.lsn import Position
from jobs.delta_engine.mirrors.attempts import Attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.sinks.arrow import python_values
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.row_errors import unkeyed, unknown_values
from jobs.without_mirrors.fold import EVENT

Key = tuple[Any, ...]
"""Of Python's values, but times as Arrow counts them: it has years that Python has not."""
_COUNTED: Final = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)


class Changed(NamedTuple):
    """Images of the rows that are not as they were: ``before`` and ``after`` lack those that were
    not there, or are not any more."""

    before: pa.Table
    after: pa.Table


def write_changes(
    view: str, mirror: Mirror, rows: pa.Table, before: Attempts, now: Attempts, truncated: Position
) -> Changed:
    """Append what is news in ``rows`` (folded, as for a store) to the mirror as attempt ``now``.

    ``before`` is what was known when the batch began: what attempts after its settled one left in
    the mirror counts as changed too. ``truncated`` is the newest TRUNCATE: what is older is not
    news. Raises ``RowsUnfitError`` for rows that keep a large value which the mirror does not have,
    and for those whose key is null.
    """
    left = keyed(mirror.unsettled(before.settled), mirror.key) if _is_left(before) else []
    fallen = _truncate(mirror, rows, now, truncated)
    rows = _keyed_ones(view, rows.filter(_wanted(rows, truncated)), mirror.key)
    held = mirror.find(rows.select(mirror.key))
    fresh = _fresh(rows, held, mirror.key)
    news = _filled(view, fresh, held, mirror)
    once = is_each_once(news, mirror.key)
    if len(news):
        write = mirror.append if len(held) or not once else mirror.append_new
        write(news, now.last)
    if once and not (left or fallen):
        were, are = mirror.live(_of(held, news, mirror.key)), mirror.live(news)
    else:
        touched = dict.fromkeys([*keyed(fresh, mirror.key), *fallen, *left])
        wanted = _table(mirror, touched)
        were, are = mirror.rows(wanted, before.settled), mirror.rows(wanted)
    mirror.grown(len(are) - len(were))
    return _differing(mirror, were, are)


def is_each_once(rows: pa.Table, key: Sequence[str]) -> bool:
    """Whether no two rows have the same key."""
    return len(rows.select(key).group_by(list(key)).aggregate([])) == len(rows)


def _fresh(rows: pa.Table, held: pa.Table, key: Sequence[str]) -> pa.Table:
    """Those that are newer than what is held of their keys."""
    if not len(held):
        return rows
    known = positions(held, key)
    fresh = [i for i, (one, new) in enumerate(zip(keyed(rows, key), at(rows), strict=True))
             if one not in known or known[one] < new]  # fmt: skip
    return rows.take(pa.array(fresh, pa.int64()))


def _of(held: pa.Table, rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """What is held of the keys of rows."""
    if not len(held):
        return held
    wanted = set(keyed(rows, key))
    found = [i for i, one in enumerate(keyed(held, key)) if one in wanted]
    return held.take(pa.array(found, pa.int64()))


def _is_left(attempts: Attempts) -> bool:
    return attempts.last > attempts.settled


def _wanted(rows: pa.Table, truncated: Position) -> pa.Array:
    """Changes of rows, and not from before the newest TRUNCATE."""
    lsn, ordinal = rows.column(COMMIT_LSN), rows.column(ORDINAL)
    same = pc.and_(
        pc.equal(lsn, truncated.commit_lsn), pc.greater_equal(ordinal, truncated.ordinal)
    )
    later = pc.or_(pc.greater(lsn, truncated.commit_lsn), same)
    return pc.and_(pc.not_equal(of_event(rows, "op"), TRUNCATE), later)


def _keyed_ones(view: str, rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Without deletions of rows whose key (``source.keys``) is null: they were never taken."""
    some = pc.is_null(rows.column(key[0]))
    for name in key[1:]:
        some = pc.or_(some, pc.is_null(rows.column(name)))
    lost = rows.filter(pc.and_not(some, rows.column(DELETED)))
    if len(lost):
        raise unkeyed(view, at(lost))
    return rows.filter(pc.invert(some))


def _truncate(mirror: Mirror, rows: pa.Table, now: Attempts, truncated: Position) -> list[Key]:
    """Delete what is older than a TRUNCATE that the batch holds; the keys of that."""
    ops = of_event(rows, "op")
    if not pc.any(pc.equal(ops, TRUNCATE)).as_py():
        return []
    held = mirror.all()
    older = [
        i
        for i, (gone, place) in enumerate(
            zip(held.column(DELETED).to_pylist(), at(held), strict=True)
        )
        if not gone and place < truncated
    ]
    fallen = held.take(pa.array(older, pa.int64()))
    if older:
        mirror.append(_deletions(fallen, mirror.key, truncated), now.last)
    return keyed(fallen, mirror.key)


def _deletions(rows: pa.Table, key: Sequence[str], where: Position) -> pa.Table:
    count = len(rows)
    fixed = {DELETED: True, COMMIT_LSN: where.commit_lsn, ORDINAL: where.ordinal}
    columns = []
    for field in rows.schema:
        if field.name in fixed:
            columns.append(pa.array([fixed[field.name]] * count, field.type))
        elif field.name in key:
            columns.append(rows.column(field.name))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.table(columns, schema=rows.schema)


def _filled(view: str, rows: pa.Table, held: pa.Table, mirror: Mirror) -> pa.Table:
    """With the values that an UPDATE left out taken from the mirror: also those that only a row of
    a snapshot has, where the mirror's is newer than that."""
    versions = rows.select(mirror.version_columns.names)
    lacking, read = _listed(rows.column(UNCHANGED)), _listed(of_event(rows, "read"))
    if not lacking and not read:
        return versions
    stood = {key: i for i, key in enumerate(keyed(held, mirror.key))}
    gone, keys = held.column(DELETED).to_pylist(), keyed(rows, mirror.key)
    missing = [i for i in lacking if keys[i] not in stood or gone[stood[keys[i]]]]
    if missing:
        where = list(at(rows))
        raise unknown_values(view, [("", where[i]) for i in missing], len(missing))
    lsns, held_at = of_event(rows, "read_lsn"), list(at(held))
    for i, names in read.items():
        place = stood.get(keys[i])
        if place is not None and not gone[place] and held_at[place] > (lsns[i].as_py(), 0):
            lacking[i] = [*lacking.get(i, ()), *names]
    for name in dict.fromkeys(name for names in lacking.values() for name in names):
        number = versions.schema.get_field_index(name)
        field, kind = versions.schema.field(number), held.schema.field(name).type
        both = [*versions.column(name).cast(kind).chunks, *held.column(name).chunks]
        taken = [
            len(versions) + stood[keys[i]] if name in lacking.get(i, ()) else i
            for i in range(len(versions))
        ]
        values = pa.chunked_array(both, kind).take(pa.array(taken, pa.int64()))
        versions = versions.set_column(number, field, values)
    return versions


def _listed(names: pa.ChunkedArray) -> dict[int, list[str]]:
    """The lists that name something, by row."""
    if not pc.any(pc.greater(pc.list_value_length(names), 0)).as_py():
        return {}
    return {i: some for i, some in enumerate(names.to_pylist()) if some}


def of_event(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A field of the rows' events."""
    return pc.struct_field(rows.column(EVENT), name)


def _differing(mirror: Mirror, before: pa.Table, after: pa.Table) -> Changed:
    """Of images of rows, those of rows that are not as they were."""
    if not len(before) or not len(after):  # nothing is as it was: rows that come, as at first
        return Changed(before, after)
    old, new = _by_key(before, mirror.key), _by_key(after, mirror.key)
    same = {key for key, row in old.items() if new.get(key) == row}
    return Changed(_without(before, same, mirror.key), _without(after, same, mirror.key))


def _table(mirror: Mirror, keys: dict[Key, None]) -> pa.Table:
    fields = [mirror.arrow.field(name) for name in mirror.key]
    columns = list(zip(*keys, strict=True)) if keys else [()] * len(fields)
    arrays = [
        pa.array(list(column), _counted(field.type) or field.type).cast(field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _counted(kind: pa.DataType) -> pa.DataType | None:
    """The integer that a key has in place of a time."""
    if not any(is_one(kind) for is_one in _COUNTED):
        return None
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _by_key(rows: pa.Table, key: Sequence[str]) -> dict[Key, tuple[Any, ...]]:
    values = zip(*map(python_values, rows.columns), strict=True)
    return {
        one: tuple(map(_comparable, row)) for one, row in zip(keyed(rows, key), values, strict=True)
    }


def _comparable(value: Any) -> Any:
    """Equal only to what every store would show as the same: 0.0 is not -0.0, NaN is NaN."""
    return repr(value) if isinstance(value, float | list) else value


def _without(rows: pa.Table, keys: set[Key], key: Sequence[str]) -> pa.Table:
    if not keys:
        return rows
    kept = [i for i, one in enumerate(keyed(rows, key)) if one not in keys]
    return rows.take(pa.array(kept, pa.int64()))


def keyed(rows: pa.Table, key: Sequence[str]) -> list[Key]:
    """The key of each row; equal ones are equal, NaN too."""
    return list(zip(*(_identifying(rows.column(name)) for name in key), strict=True))


def _identifying(column: pa.ChunkedArray) -> list[Any]:
    counted = _counted(column.type)
    values: list[Any] = (column if counted is None else column.cast(counted)).to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return [math.nan if value is not None and math.isnan(value) else value for value in values]


def positions(rows: pa.Table, key: Sequence[str]) -> dict[Key, Position]:
    """The position of each row, by key."""
    return dict(zip(keyed(rows, key), at(rows), strict=True))


def at(rows: pa.Table) -> Iterator[Position]:
    """The position of each row."""
    pairs = zip(rows.column(COMMIT_LSN).to_pylist(), rows.column(ORDINAL).to_pylist(), strict=True)
    return (Position(lsn, ordinal) for lsn, ordinal in pairs)
