"""A batch applied to mirrors: old and new images of the rows it changes, then the rows themselves.

All of it in the caller's transaction, in which key queries of views run between ``images`` and
``write`` and behind it. What a record carries that its column cannot hold fails a statement of many
records: the faulty ones are looked for by halves and left out, the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import psycopg

from cdc.lsn import Position
from jobs.state.batch.image_tables import image_tables
from jobs.state.batch.sql import images_sql, truncated_sql, write_sql
from jobs.state.batch.staging import Fault, Mirror, Record, RecordsNeededError, Staged
from jobs.state.server.connection import Connection, translated

LARGE: Final = 20_000
"""From so many records on a statement is planned for its own sizes, and images are analyzed."""
_DATA: Final = ("22", "23", "54")
"""Classes of SQLSTATE that a value is at fault for; 54 is what is
too large."""


class Images(NamedTuple):
    """How many rows of a mirror a batch changes: as they were, and as they are.

    ``truncated`` is the newest TRUNCATE that the batch carries out, None without one.
    """

    mirror: Mirror
    old: int
    new: int
    faults: Sequence[Fault]
    truncated: Position | None = None


def images(conn: Connection, staged: Sequence[Staged]) -> list[Images]:
    """Fill the tables of images of all mirrors that a batch is of; in the caller's transaction."""
    with translated("applying a batch to the mirrors"):
        conn.execute(b"savepoint images")
        try:
            found = _together(conn, staged)
        except psycopg.Error as error:
            if not is_of_data(error):
                raise
            if any(one.elsewhere for one in staged):
                raise RecordsNeededError from error
            conn.execute(b"rollback to savepoint images")
            found = [_Careful(conn, one).images() for one in staged]
        conn.execute(b"release savepoint images")
        for one in found:
            if one.old + one.new >= LARGE:
                for name in image_tables(one.mirror.id):
                    conn.execute(f"analyze {name}".encode())
    return found


def write(conn: Connection, made: Sequence[Images]) -> None:
    """Make the rows of the mirrors those of the new images; in the caller's transaction."""
    with translated("writing a batch to the mirrors"), conn.pipeline():
        for one in made:
            if one.old or one.new:
                small = one.old + one.new < LARGE
                conn.execute(_write_statement(one), {}, prepare=small)
        for one in made:
            if one.truncated is not None:
                _remember_truncate(conn, one.mirror, one.truncated)


def _write_statement(made: Images) -> bytes:
    mirror, deletes = made.mirror, made.old > 0
    return mirror.statement(
        ("write", deletes), lambda: write_sql(mirror.table, mirror.id, deletes=deletes)
    )


def _remember_truncate(conn: Connection, mirror: Mirror, at: Position) -> None:
    conn.execute(
        b"update headwater.mirrors set truncated_lsn = %s, truncated_ordinal = %s where id = %s",
        (at.commit_lsn, at.ordinal, mirror.id),
    )


def _together(conn: Connection, staged: Sequence[Staged]) -> list[Images]:
    with conn.pipeline():
        cursors = [(one, _started(conn, one)) for one in staged if one.count]
        for one in staged:
            _truncate(conn, one)
    found = {id(one): cursor.fetchone() for one, cursor in cursors}
    return [_images(conn, one, found.get(id(one))) for one in staged]


def _started(
    conn: Connection, staged: Staged, first: int = 0, last: int = (1 << 31) - 1
) -> psycopg.Cursor[Any]:
    mirror = staged.mirror
    shapes, traits = tuple(staged.shapes), staged.traits
    if staged.elsewhere:  # in tables that the next batch does not have
        text = images_sql(mirror.table, mirror.id, shapes, traits, staged.relation)
        statement = text.encode()
    else:
        statement = mirror.statement(
            (shapes, traits), lambda: images_sql(mirror.table, mirror.id, shapes, traits)
        )
    parameters = {
        "mirror": mirror.id,
        "first": first,
        "last": last,
        "fill_lsn": mirror.fill_lsn,
        "gone_lsn": staged.gone.commit_lsn,
        "gone_ordinal": staged.gone.ordinal,
    }
    small = staged.count < LARGE
    return conn.execute(statement, parameters, prepare=small)


def _truncate(conn: Connection, staged: Staged) -> None:
    if staged.truncated > staged.mirror.truncated:
        at = {"gone_lsn": staged.gone.commit_lsn, "gone_ordinal": staged.gone.ordinal}
        conn.execute(truncated_sql(staged.mirror.table, staged.mirror.id).encode(), at)


def _images(conn: Connection, staged: Staged, row: Any) -> Images:
    old, new, lacking, unkeyed = row or (0, 0, [], [])
    faults = list(staged.faults)
    if staged.elsewhere and (lacking or unkeyed):
        raise RecordsNeededError
    for number in lacking:
        cause = "an update leaves out a large value of a row that the mirror does not have"
        faults.append(Fault(staged.records[number], cause))
    for number in unkeyed:
        cause = "the key of the row is null: name columns in source.keys that are not"
        faults.append(Fault(staged.records[number], cause))
    truncated = None
    if staged.truncated > staged.mirror.truncated:
        truncated = staged.truncated
        old_table, _ = image_tables(staged.mirror.id)
        counted = conn.execute(f"select count(*) from {old_table}".encode()).fetchone()
        old = counted[0] if counted else old
    return Images(staged.mirror, old, new, faults, truncated)


def is_of_data(error: psycopg.Error) -> bool:
    """Whether the values of some rows are at fault."""
    return (error.sqlstate or "").startswith(_DATA)


class _Careful:
    """Images of one mirror, some of whose records are faulty."""

    def __init__(self, conn: Connection, staged: Staged) -> None:
        self._conn, self._staged = conn, staged

    def images(self) -> Images:
        """Those of the records that are sound, as one statement makes them."""
        for fault in self._faults(sorted(self._staged.records)):
            self._staged.faults.append(fault)
        with self._conn.transaction():
            row = None
            if self._staged.records:
                row = _started(self._conn, self._staged).fetchone()
            _truncate(self._conn, self._staged)
        return _images(self._conn, self._staged, row)

    def _faults(self, numbers: Sequence[int]) -> list[Fault]:
        """The faulty ones among these records, which are staged no more then."""
        pending, faults = [numbers], []
        while pending:
            part = pending.pop()
            error = self._tried(part)
            if error is None:
                continue
            if len(part) > 1:
                middle = len(part) // 2
                pending += [part[middle:], part[:middle]]
                continue
            faults.append(_fault(self._staged.records.pop(part[0]), error))
            self._conn.execute(b"delete from pg_temp.staged where n = %s", (part[0],))
        return faults

    def _tried(self, part: Sequence[int]) -> psycopg.Error | None:
        """What is wrong with these records, all of them together."""
        if not part:
            return None
        try:
            with self._conn.transaction(force_rollback=True):
                _started(self._conn, self._staged, part[0], part[-1])
        except psycopg.Error as error:
            if not is_of_data(error):
                raise
            return error
        return None


def _fault(record: Record, error: psycopg.Error) -> Fault:
    state = error.sqlstate or ""
    return Fault(record, f"a value does not fit its column (SQLSTATE {state})", state)
