"""A view kept by its plan, on a real PostgreSQL, as the engine keeps it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobs.state.groups.changes import GroupChanges
from jobs.state.groups.tables import fill_group_table, group_sums, make_group_table
from jobs.state.views.view_generation import ViewGeneration as EngineView
from tests.sql_maintenance.mirrors import Connection, images, mirror, move, stage
from views.maintain import MirrorTable, ViewPlan

Key = tuple[str, ...]


@dataclass(slots=True)
class Difference:
    """What a batch did to a kept view: record texts, and how many keys were dirty."""

    gone: Counter[str]
    come: Counter[str]
    dirty: int
    whole: bool


@dataclass(slots=True)
class KeptView:
    """A view, as it was written, and its rows by key as record text.

    ``groups`` are kept by the change if they can be; they are ``filled`` from some batch on.
    """

    connection: Connection
    plan: ViewPlan
    sql: str
    rows: dict[Key, str] = field(default_factory=dict)
    groups: GroupChanges | None = None
    filled: bool = False

    def build(self) -> None:
        """All rows, from the mirrors."""
        self.rows = self._read(self.plan.whole(mirror))
        sums = group_sums(self.connection, 1, self.plan.groups, mirror)
        if sums is not None:
            self.connection.execute("create schema groups")
            make_group_table(self.connection, sums, mirror)
            view = EngineView(1, "v", 1, self.plan, (), mirror, groups=sums)
            both = {table: (f'old."{table}"', f'new."{table}"') for table in self.plan.reads}
            self.groups = GroupChanges(view, sums, both)

    def fill(self) -> None:
        """The groups that there are; again, if they were filled before."""
        if self.groups is not None:
            fill_group_table(self.connection, self.groups.sums, mirror, self.filled)
            self.filled = True

    def _read(self, sql: str) -> dict[Key, str]:
        key = ", ".join(f'row_."{name}"::text' for name in self.plan.key)
        found = self.connection.execute(f"select {key}, row_::text from ({sql}) row_").fetchall()
        made = {tuple(str(part) for part in row[:-1]): str(row[-1]) for row in found}
        assert len(made) == len(found), f"rows share a key: {found}"
        assert not any(None in row[:-1] for row in found), f"NULL in a key: {found}"
        return made

    def keep(self, tables: Mapping[str, MirrorTable]) -> Difference:
        """Take a batch that was made in the tables."""
        run = self.connection.execute
        run("drop table if exists dirty")
        run(f"create temp table dirty as {self._key_columns()}")
        touched = stage(self.connection, tables.values())
        gates = self._gates(touched)
        if self.groups is not None:
            self.groups.before(self.connection, frozenset(touched))
        self._find("old", touched)
        move(self.connection, tables.values(), touched)
        self._find("new", touched)
        if self.groups is not None:
            self.groups.after(self.connection)
        whole = any(name in self.plan.whole_tables for name in touched)
        whole = whole or gates != self._gates(touched)
        if whole:
            made, wanted = self._read(self.plan.whole(mirror)), None
        else:
            made = self._read(self._rows("(select distinct * from dirty)"))
            wanted = self._dirty()
        return self._take(made, wanted, whole)

    def _rows(self, keys: str) -> str:
        if self.groups is None or not self.filled:
            return self.plan.rows(mirror, keys)
        return self.groups.view.rows(keys)

    def _key_columns(self) -> str:
        shown = ", ".join(f'v."{name}"' for name in self.plan.key)
        return f"select {shown} from ({self.plan.whole(mirror)}) v limit 0"

    def _gates(self, touched: tuple[str, ...]) -> list[list[str]]:
        return [
            sorted(str(row[0]) for row in self.connection.execute(
                f"select g::text from ({gate.sql(mirror)}) g"
            ))
            for gate in self.plan.gates
            if gate.table in touched
        ]  # fmt: skip

    def _find(self, state: str, touched: tuple[str, ...]) -> None:
        for query in self.plan.key_queries:
            if query.table in touched:
                old, new = f'old."{query.table}"', f'new."{query.table}"'
                at = "before" if state == "old" else "after"
                changed = self.plan.changed(query, old, new, at)
                sql = query.sql(mirror, changed, images)
                self.connection.execute(f"insert into dirty {sql}")

    def _dirty(self) -> set[Key]:
        shown = ", ".join(f'"{name}"::text' for name in self.plan.key)
        found = self.connection.execute(f"select distinct {shown} from dirty").fetchall()
        return {tuple(str(part) for part in row) for row in found}

    def _take(self, made: dict[Key, str], wanted: set[Key] | None, whole: bool) -> Difference:
        gone: Counter[str] = Counter()
        come: Counter[str] = Counter()
        for key in set(self.rows) | set(made) if wanted is None else wanted | set(made):
            before, after = self.rows.get(key), made.get(key)
            if before == after:
                continue
            if before is not None:
                gone[before] += 1
                del self.rows[key]
            if after is not None:
                come[after] += 1
                self.rows[key] = after
        return Difference(gone, come, -1 if wanted is None else len(wanted), whole)

    def truth(self) -> Counter[str]:
        """The view's rows as PostgreSQL computes them from the tables, by its SQL as written."""
        return self.computed(self.sql)

    def computed(self, sql: str) -> Counter[str]:
        """The rows of any query as record text."""
        return Counter(
            str(row[0]) for row in self.connection.execute(f"select row_::text from ({sql}) row_")
        )

    def check(self) -> None:
        """Raise AssertionError unless the kept rows are the view's."""
        truth = self.truth()
        assert self.computed(self.plan.whole(mirror)) == truth, "the whole view is not the view"
        assert Counter(self.rows.values()) == truth, "the kept view is not the view"
