"""The views that ``make chaos`` keeps with the state database are kept key by key, but for those
of a whole table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.run.tables.mirrored_tables import planned
from tests.chaos.views.altered_columns import TOUCHED, touched_view
from tests.chaos.views.kinds import KINDS
from tests.chaos.workload.tables import KEYS, TABLES, creation, quoted
from tests.support.servers.postgres import fresh_database
from tests.support.views.mirror_tables import MirrorSetting
from views.maintain import plan_view
from views.maintain.mirror import MirrorTable


@pytest.fixture(scope="module")
def tables(postgres: str) -> Iterator[dict[str, MirrorTable]]:
    names = [f"{quoted(one.schema)}.{quoted(one.name)}" for one in TABLES if one.key]
    keys = {label: tuple(key) for label, key in KEYS.items()}
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        setting = MirrorSetting(source, state, keys)
        setting.execute(*creation())
        setting.stream("for all tables with (publish_via_partition_root)")
        setting.fill(*names)
        yield {label: planned(one.table) for label, one in setting.mirrors.items()}
        setting.close()


@pytest.mark.parametrize("name", TOUCHED)
def test_the_view_that_ddl_touches_is_kept_key_by_key(
    name: str, tables: dict[str, MirrorTable]
) -> None:
    view = touched_view("s", name).view
    plan = plan_view(name, view.sql, view.key, tables)
    assert plan.mode == "keys", plan.reason
    assert not plan.whole_tables


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for kind, of_it in KINDS.items() for name in of_it],
)
def test_it_is_kept_as_its_kind_is(name: str, kind: str, tables: dict[str, MirrorTable]) -> None:
    key, sql = KINDS[kind][name]
    plan = plan_view(name, sql, key, tables)
    assert plan.mode == ("keys" if kind != "whole table" else plan.mode), plan.reason
    assert not plan.whole_tables or kind == "whole table", plan.whole_tables
