"""What a lane settles need not be on the disk at once: a server that goes down may lose it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from jobs.state.server.connection import Connection, connect
from jobs.state.views.dirty_keys import settle
from jobs.state.views.whole_recomputation import settle_whole
from tests.sql_maintenance.cases import SHOP
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting


@pytest.mark.parametrize(
    ("mode", "sql"),
    [
        ("keys", "select id, name from customers"),
        ("whole", "select id, name, row_number() over (order by id) as nth from customers"),
    ],
)
def test_a_row_that_is_what_it_was_is_written_again_where_settling_was_lost(
    postgres: str, mode: str, sql: str
) -> None:
    with (
        fresh_database(postgres) as source,
        fresh_database(postgres) as state,
        closing(EngineSetting(source, state, SHOP)) as setting,
    ):
        kept = setting.add("names", sql, ["id"])
        assert kept.view.plan.mode == mode
        _change(setting, "update customers set name = name || '~' where id = 1")
        with closing(connect(state, autocommit=True)) as lane:
            _lose_what_is_settled(setting, lane)
        _change(setting, "update customers set name = rtrim(name, '~') where id = 1")
        assert "~" in "".join(kept.store.rows.values())
        setting.keep()
        setting.check()


def _change(setting: EngineSetting, statement: str) -> None:
    setting.mirrors.execute(statement)
    setting.apply(setting.mirrors.changes())


def _lose_what_is_settled(setting: EngineSetting, lane: Connection) -> None:
    """A turn, of which the server has only what was to last when it goes down. That the session
    is another one then is all that a keeper hears of it: another view may have had the fault."""
    (kept,) = setting.views.values()
    with (
        patch("jobs.run.views.view_keeper.settle", partial(_lost, settle)),
        patch("jobs.run.views.view_keeper.settle_whole", partial(_lost, settle_whole)),
    ):
        kept.keeper.turn(lane)


def _lost(noted: Callable[..., Any], conn: Connection, *arguments: Any) -> Any:
    with conn.transaction(force_rollback=True):
        return noted(conn, *arguments)
