"""Collations of mirrors: kept where the state database has them, told where it has not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.config import Config, Events
from cdc.errors import ViewError
from cdc.events.form import OURS
from headwater.check.state_mirrors import StateMirrors
from jobs.state.mirrors import collations
from jobs.state.mirrors.collations import Collation, read_collations
from jobs.state.server.connection import Connection
from tests.support.views.mirror_tables import MirrorSetting
from views.maintain import plan_view

LABEL = "public.t"


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    yield made
    made.close()


@pytest.mark.parametrize("lacking", ["version", "collation"])
def test_a_collation_that_is_another_one_is_told_before_a_view_is_built(
    setting: MirrorSetting, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """As `headwater check` asks; a view may show its values, and not compare them."""
    setting.execute(
        "create collation german (provider = builtin, locale = 'C.UTF-8')",
        "create table t (id int primary key, g text collate german)",
    )
    setting.stream()
    known = read_collations

    def read(conn: Connection) -> Mapping[int, Collation]:
        found = known(conn)
        if conn is not setting.state:
            return found
        if lacking == "collation":
            return {oid: one for oid, one in found.items() if one.locale.provider != "b"}
        return {
            oid: one._replace(version="1.1") if one.locale.provider == "b" else one
            for oid, one in found.items()
        }

    monkeypatch.setattr(collations, "read_collations", read)
    config = cast("Config", SimpleNamespace(source=setting.config, events=Events(), form=OURS))
    table = StateMirrors(config, setting.source, setting.state).table(setting.oid("public.t"))
    assert table is not None
    plan_view("v", "select id, g from t", ["id"], {LABEL: table})
    said = {
        "version": "the state database has the collation C.UTF-8 in version 1.1, the source in",
        "collation": "the state database does not have the collation C.UTF-8",
    }
    with pytest.raises(ViewError, match=said[lacking]):
        plan_view("v", "select id from t where g < 'm'", ["id"], {LABEL: table})
    query = b"select count(*) from pg_collation where collnamespace = 'types'::regnamespace"
    assert setting.state.execute(query).fetchone() == (0,), "asking has made something"


def test_collations_are_kept_or_told(setting: MirrorSetting) -> None:
    setting.execute(
        "create collation german (provider = builtin, locale = 'C.UTF-8')",
        'create table t (id int primary key, plain text, c text collate "C", g text collate german,'
        ' list text[] collate "C")',
        "insert into t values (1, 'a', 'b', 'c', '{d}')",
    )
    setting.stream()
    (filled,) = setting.fill(LABEL)
    found = {column.name: column.collation for column in filled.table.columns}
    assert found["c"] == found["list"] == '"pg_catalog"."C"'
    assert found["plain"] == ""
    assert not [column.fault for column in filled.table.columns if column.fault]
    setting.assert_equal(LABEL)
