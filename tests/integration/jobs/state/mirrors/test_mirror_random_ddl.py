"""Random DDL between random changes, in batches that are cut anywhere: the mirror is the source.

The stream is read late, so that the catalog is ahead of what is decoded, as after an outage.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.views.mirror_tables import MirrorSetting

LABEL = "public.t"
STEPS = 24
SEEDS = [*range(3), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(3, 10))]


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    made.execute(
        "create type mood as enum ('sad', 'ok')",
        "create table t (id int primary key, a text, b varchar(10))",
        "insert into t select i, 'a' || i, i from generate_series(1, 15) i",
    )
    made.stream()
    made.fill(LABEL)
    yield made
    made.close()


class Source:
    """Draws statements; ``columns`` are those of the table besides its key."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.columns = {"a": "text", "b": "varchar"}
        self._names = map("c{}".format, count())

    def change(self) -> str:
        key = self.random.randint(1, 30)
        column = self.random.choice(list(self.columns)) if self.columns else None
        match self.random.randint(0, 4):
            case 0:
                return f"delete from t where id = {key}"
            case 1:
                return f"insert into t (id) values ({key}) on conflict do nothing"
            case _ if column is not None:
                value = {"mood": "'ok'", "int": str(key)}.get(self.columns[column], f"'v{key}'")
                return f'update t set "{column}" = {value} where id between {key} and {key + 3}'
            case _:
                return f"update t set id = id + 1000 where id = {key}"

    def ddl(self) -> str:
        draw = self.random.randint(0, 8)
        if draw <= 3 or not self.columns:
            name = next(self._names)
            if self.random.randint(0, 3) == 0 and "a" not in self.columns:
                name = "a"
            kind = self.random.choice(["text", "int", "mood", "varchar"])
            self.columns[name] = kind
            value = {"mood": "'sad'", "int": "7"}.get(kind, "'d'")
            default = self.random.choice(["", f" default {value}"])
            return (
                f'alter table t add "{name}" {kind}{"(10)" if kind == "varchar" else ""}{default}'
            )
        column = self.random.choice(list(self.columns))
        if draw <= 5:
            del self.columns[column]
            return f'alter table t drop "{column}"'
        if draw <= 7:
            name = next(self._names)
            self.columns[name] = self.columns.pop(column)
            return f'alter table t rename "{column}" to "{name}"'
        kind = self.columns[column]
        self.columns[column] = "text"
        return f'alter table t alter "{column}" drop default, alter "{column}" type text' + (
            "" if kind in ("text", "varchar") else f' using "{column}"::text'
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mirror_is_the_source_also_where_builds_have_asked_its_catalog(
    setting: MirrorSetting, seed: int
) -> None:
    """Before changes are decoded, before they are applied, and amid them."""
    source = Source(1000 + seed)

    def ask() -> None:
        if source.random.randint(0, 1):
            setting.follow_source(LABEL)
            held = {one.name for one in setting.mirrors[LABEL].table.columns}
            assert held == {"id", *source.columns}

    for _ in range(STEPS):
        for _ in range(source.random.randint(0, 4)):
            setting.execute(source.change())
        if source.random.randint(0, 1) == 0:
            setting.execute(source.ddl())
        ask()
        if source.random.randint(0, 2) == 0:
            changes = setting.changes()
            cut = source.random.randint(0, len(changes))
            for batch in (changes[:cut], changes[cut:]):
                ask()
                setting.follow(batch)
                made = setting.apply(batch)
                assert not [fault for one in made for fault in one.faults]
            setting.follow_source(LABEL)
            setting.assert_equal(LABEL)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mirror_is_the_source(setting: MirrorSetting, seed: int) -> None:
    source = Source(seed)
    for _ in range(STEPS):
        for _ in range(source.random.randint(1, 4)):
            setting.execute(source.change())
        if source.random.randint(0, 2) == 0:
            setting.execute(source.ddl())
        if source.random.randint(0, 3) == 0:
            # DDL is met with the first event of the version that it made.
            setting.execute("insert into t (id) values (99999)", "delete from t where id = 99999")
            changes = setting.changes()
            cut = source.random.randint(0, len(changes))
            for batch in (changes[:cut], changes[cut:]):
                setting.follow(batch)
                made = setting.apply(batch)
                assert not [fault for one in made for fault in one.faults]
            setting.assert_equal(LABEL)
    setting.execute("insert into t (id) values (99999)")
    setting.catch_up()
    setting.assert_equal(LABEL)
