"""Mirrors that have to be filled anew, or that follow DDL, while changes of their tables go on:
views over them, and histories, lack nothing of what the stream was not given meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.config import View
from cdc.errors import RetryableError
from jobs.run.builds import builder
from jobs.run.tables import mirrored_tables
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.tables.source_settings import SourceSettings
from jobs.run.views import generation_registry
from jobs.sinks.delta.delta_reader import opened
from jobs.state.mirrors.mirror_record import mark_stale, read_mirrors
from jobs.state.server.connection import Connection
from tests.support.servers.postgres import fresh_database
from tests.support.views.streamed_engine import MISSED, REWRITES, TABLE, Setting
from tests.support.waiting import wait_until


@pytest.fixture
def setting(
    postgres: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = Setting(source, state, spark, tmp_path)
        monkeypatch.setattr(
            mirrored_tables, "read_table_versions", lambda *_: {TABLE: made.mirrors.versions}
        )
        yield made
        made.mirrors.close()


def test_a_batch_that_makes_a_mirror_stale(setting: Setting) -> None:
    with setting.applying() as to:
        setting.are_right()
        setting.mirrors.execute(*MISSED[:1], REWRITES, *MISSED[1:])
        setting.give(to)
        setting.are_right()
        setting.mirrors.execute("update coded set token = 3")
        setting.give(to)
        setting.are_right()


def test_mirrors_that_were_noted_as_stale_and_nothing_else(setting: Setting) -> None:
    """The process was killed behind that, or what it did besides has failed."""
    conn = setting.mirrors.state
    with setting.applying() as to:
        setting.are_right()
        mark_stale(conn, read_mirrors(conn)[TABLE].id, "it is")
        setting.mirrors.execute(MISSED[0])
        setting.send()  # the stream goes on behind it
        with setting.engine.changing():
            pass
        setting.are_right()
        setting.mirrors.execute(MISSED[1])
        setting.give(to)
        setting.are_right()
    mark_stale(conn, read_mirrors(conn)[TABLE].id, "it is")
    setting.mirrors.execute(MISSED[2])
    setting.send()
    with setting.applying():
        setting.are_right()


def test_a_mirror_that_others_filled_anew_beside_the_process(setting: Setting) -> None:
    conn = setting.mirrors.state
    with setting.applying() as to:
        setting.are_right()
        setting.mirrors.execute(*MISSED)
        setting.send()
        mark_stale(conn, read_mirrors(conn)[TABLE].id, "it is")
        settings = SourceSettings(setting.config, setting.parts.reload)
        tables = MirroredTables(setting.config, setting.parts.broker, settings)
        tables.fill(conn, [TABLE])
        with setting.engine.changing():
            pass
        setting.are_right()
        setting.mirrors.execute("update coded set token = 3")
        setting.give(to)
        setting.are_right()


def test_ddl_while_a_view_is_planned_again_for_earlier_ddl(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be kept by the columns that its table had before."""
    setting.mirrors.execute("alter table coded add a int, add b int")
    # A view calls columns as they were called when it was built.
    second, once = threading.Event(), threading.Lock()
    givers: list[threading.Thread] = []

    def interrupted(*arguments: Any) -> Any:
        found = builder.opened(*arguments)
        other = threading.current_thread() not in (here, *givers)
        if second.is_set() and other and once.acquire(blocking=False):
            givers.append(threading.Thread(target=setting.give, args=[to]))
            givers[0].start()
            second.clear()
            givers[0].join(1)  # ends in this time if nothing keeps it out
        return found

    with setting.applying() as to:
        setting.are_right()
        here = threading.current_thread()
        monkeypatch.setattr(generation_registry, "opened", interrupted)
        setting.mirrors.execute("alter table coded rename b to c", MISSED[0])
        setting.give(to)
        setting.are_right()
        setting.mirrors.execute("alter table coded drop a", "update coded set token = 5")
        setting.give(to)
        setting.mirrors.execute("alter table coded drop c", MISSED[1])
        second.set()
        wait_until(lambda: not second.is_set(), "the view to be planned again")
        givers[0].join()
        setting.mirrors.execute(MISSED[2])
        setting.give(to)
        setting.are_right()


def test_a_table_that_was_added_while_the_process_runs(setting: Setting) -> None:
    config = setting.config
    before = config.source.model_copy(update={"tables": (TABLE,)})
    setting.config = config.model_copy(update={"source": before})
    setting.parts = replace(setting.parts, config=setting.config)
    with setting.applying():
        setting.are_right()
        setting.mirrors.execute("create table other (id int primary key)")
        other = View(store="lake", key=("id",), sql="select id from other")
        setting.config = config.model_copy(update={"views": {**config.views, "other": other}})
        wait_until(
            lambda: opened(str(setting.lake / "other")) is not None, "a view of the new table", 40
        )


def test_a_view_whose_keys_cannot_be_found_stops_alone(setting: Setting) -> None:
    """A value makes its join fail; mended, it lacks nothing."""
    config = setting.config
    sql = "select c.code, d.token from coded c left join coded d on 6 / d.token = c.token"
    divided = View(store="lake", key=("code",), sql=sql)

    def is_right() -> bool:
        with setting.mirrors.as_client() as session:
            wanted = dict(session.execute(sql.encode()).fetchall())
        return setting.found("divided") == wanted

    setting.mirrors.execute("delete from coded where code > 'b'; update coded set token = 2")
    setting.mirrors.execute("update coded set token = 3 where code = 'b'")
    setting.send()
    setting.config = config.model_copy(update={"views": {**config.views, "divided": divided}})
    with setting.applying() as to:
        wait_until(is_right, "a view that is joined")
        for fault in ("update coded set token = 0 where code = 'b'", MISSED[2]):
            setting.mirrors.execute(fault)
            setting.give(to)
            setting.are_right()
        stopped = b"select error from headwater.views where name = 'divided'"
        wait_until(
            lambda: "data error 22012" in str(setting.mirrors.state.execute(stopped).fetchone()),
            "the view to say why it has stopped",
        )
        setting.mirrors.execute("update coded set token = 3 where code = 'b'")
        setting.give(to)
        setting.are_right()
        wait_until(is_right, "a view that lacks nothing")


def test_a_state_database_that_is_away_when_its_session_is_lost(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No chore's session comes back at once: each is tried again, and the process goes on."""
    tries: list[None] = []

    def connect() -> Connection:
        tries.append(None)
        if len(tries) < 3:
            raise RetryableError("cannot connect", "start it")
        return connected()

    with setting.applying() as to:
        setting.are_right()
        connected = setting.engine._connect
        monkeypatch.setattr(setting.engine, "_connect", connect)
        setting.engine._conn.close()
        wait_until(lambda: len(tries) > 2, "a session behind two that were refused")
        monkeypatch.undo()
        setting.mirrors.execute("update coded set token = 3")
        setting.give(to)
        setting.are_right()
