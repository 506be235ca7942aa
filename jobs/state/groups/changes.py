"""What a batch adds to the groups of a view that are kept by the change, in its transaction.

Of one table the old images are taken away and the new ones added, in one statement. Of joins the
touched rows of the body are taken away as the state before has them, and added as the state after
does: which rows these are is found once, for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
import structlog

from cdc.log_events import LogEvent
from jobs.state.groups.sums import GroupSums
from jobs.state.groups.tables import UNKNOWN, drop_group_table, is_of_data
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_generation import ViewGeneration, quoted

log = structlog.get_logger("apply")

Images = dict[str, tuple[str, str]]


@dataclass(slots=True)
class GroupChanges:
    """Follows the groups of one view in one session. ``images`` are the relations of the changed
    rows' images, by table; those of a table without a change are empty."""

    view: ViewGeneration
    sums: GroupSums
    images: Images
    _lost: bool = field(default=False, init=False)
    """Whether a transaction has dropped the table, which may have been rolled back since."""
    _made: int | None = field(default=None, init=False)
    """The OID of the session's table, which a transaction made that may have been rolled back."""
    _sql: dict[str, bytes] = field(default_factory=dict, init=False)

    def before(self, conn: Connection, tables: frozenset[str]) -> None:
        """On the state before."""
        step = self._direct if self.sums.plan.table else self._take_away
        self._try(conn, lambda: step(conn, tables))

    def after(self, conn: Connection) -> None:
        """On the state after."""
        if not self.sums.plan.table:
            self._try(conn, lambda: self._put_back(conn))

    def _try(self, conn: Connection, do: Callable[[], None]) -> None:
        """Values at fault are those of the view's rows, and must not hold up a batch."""
        with translated(f"following the groups of view {self.view.name}"):
            if self._lost and _oid(conn, self.sums.table) is None:
                return
            try:
                with conn.transaction():
                    do()
            except psycopg.Error as error:
                if not is_of_data(error):
                    raise
                self._lost = True
                drop_group_table(conn, self.view.id)
                if error.sqlstate == UNKNOWN:  # it was dropped before
                    return
                log.info(LogEvent.GROUPS_NOT_KEPT, view=self.view.name, sqlstate=error.sqlstate)

    def _direct(self, conn: Connection, tables: frozenset[str]) -> None:
        plan = self.sums.plan
        if plan.table not in tables:
            return
        if "add" not in self._sql:
            old, new = self._known(plan.table)
            changed = [
                (weight, plan.changed(self.view.relation, images))
                for weight, images in ((-1, old), (1, new))
            ]
            self._sql["add"] = self.sums.add(self.sums.counted(changed)).encode()
        self._add(conn)

    def _take_away(self, conn: Connection, tables: frozenset[str]) -> None:
        """Find the touched rows of the body, and count them as the state before has them."""
        if self._made is None or _oid(conn, self._touched) != self._made:
            self._prepare(conn)
        for name in (self._touched, self._taken):
            conn.execute(f"delete from {name}".encode(), prepare=True)
        parts = [part for table in sorted(tables) for part in self._finding(table)]
        if not parts:
            return
        found = " union ".join(f"({part})" for part in parts)
        conn.execute(f"insert into {self._touched} {found}".encode(), prepare=True)
        if "take" not in self._sql:
            counted = self.sums.counted([(-1, self._body())])
            columns = ", ".join([*self.sums.grouped, *self.sums.sums])
            self._sql["take"] = (
                f"insert into {self._taken} ({columns}) select {columns} from ({counted}) g"
            ).encode()
        conn.execute(self._sql["take"], prepare=True)

    def _put_back(self, conn: Connection) -> None:
        """Count the same rows as the state after has them, and add both to the groups."""
        if "add" not in self._sql:
            columns = ", ".join([*self.sums.grouped, *self.sums.sums])
            counted = self.sums.counted([(1, self._body())])
            grouped = ", ".join(self.sums.grouped)
            summed = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in self.sums.sums)
            first = f"{grouped}, " if grouped else ""
            by = f" group by {grouped}" if grouped else ""
            both = (
                f"select {columns} from {self._taken} union all select {columns} from ({counted}) g"
            )
            change = f"select {first}{summed} from ({both}) g{by}"
            self._sql["add"] = self.sums.add(change).encode()
        self._add(conn)

    def _add(self, conn: Connection) -> None:
        rows = conn.execute(self._sql["add"], prepare=True).fetchall()
        if empty := [place for (place,) in rows if place is not None]:
            query = f"delete from {self.sums.table} where ctid = any(%s::tid[])"
            conn.execute(query.encode(), (empty,), prepare=True)

    def _prepare(self, conn: Connection) -> None:
        """The session's tables of what a batch touches, which are empty after each."""
        sums, relation = self.sums, self.view.relation
        keys = ", ".join(
            f"(select {quoted(name)} from {relation(table)} where false) as d{at}"
            for at, (table, name) in enumerate(sums.plan.anchors)
        )
        columns = ", ".join([*sums.grouped, *sums.sums])
        for name, made in (
            (self._touched, f"select {keys}"),
            (self._taken, f"select {columns} from {sums.table}"),
        ):
            conn.execute(f"drop table if exists {name}".encode())
            conn.execute(
                f"create temporary table {name.removeprefix('pg_temp.')} on commit delete rows "
                f"as {made} with no data".encode()
            )
        self._made = _oid(conn, self._touched)

    def _finding(self, table: str) -> list[str]:
        def images(label: str) -> str:
            old, new = self._known(label)
            return f"(select * from {old} union all select * from {new})"

        return self.sums.plan.touched(self.view.relation, images, table)

    def _body(self) -> str:
        return self.sums.plan.changed(self.view.relation, self._touched)

    def _known(self, table: str) -> tuple[str, str]:
        """The images with the columns that the plan knows."""
        old, new = self.images[table]
        return self.view.names.reading(table, old), self.view.names.reading(table, new)

    @property
    def _touched(self) -> str:
        return f"pg_temp.touched_{self.view.id}"

    @property
    def _taken(self) -> str:
        return f"pg_temp.taken_{self.view.id}"


def _oid(conn: Connection, relation: str) -> int | None:
    row = conn.execute(b"select to_regclass(%s)::oid::bigint", (relation,)).fetchone()
    return None if row is None else row[0]
