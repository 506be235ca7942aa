"""Views that read the clock: rows come and go by time, and only these are written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bootstrap.view_sql import ViewSql
from cdc.errors import ViewError
from jobs.run.views.view_clock import ViewClock
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.views.whole_recomputation import tick
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting, Killed

SCHEMA = """
create table offers (id int primary key, name text, ends timestamptz);
create table products (id int primary key, name text);
insert into offers select i, 'offer ' || i, 'infinity' from generate_series(1, 30) i;
insert into products select i, 'product ' || i from generate_series(1, 30) i;
"""
OPEN = """select o.id, o.name, p.name as product from offers o
          join products p on p.id = o.id where o.ends > now()"""


@pytest.fixture
def shop(postgres: str) -> Iterator[EngineSetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        setting = EngineSetting(source, state, SCHEMA)
        yield setting
        setting.close()


def _time_passes(shop: EngineSetting) -> None:
    """Four offers end, as if by time alone: both databases have their end in the past, and no
    change tells of it."""
    ended = "set ends = '-infinity' where id <= 4"
    shop.mirrors.execute(f"update offers {ended}")
    shop.mirrors.changes()  # is not applied
    shop.conn.execute(f'update mirror."public.offers" {ended}'.encode())


def test_rows_leave_when_their_time_is_over_and_nothing_else_is_written(
    shop: EngineSetting,
) -> None:
    kept = shop.add("open", OPEN, ["id"])
    assert kept.view.plan.clock
    assert kept.view.plan.mode == "keys"
    assert len(kept.store.rows) == 30
    _time_passes(shop)
    shop.keep()
    assert len(kept.store.rows) == 30, "nobody has looked at the clock"
    written = kept.store.written
    tick(shop.conn, [kept.view])
    shop.keep()
    shop.check()
    assert len(kept.store.rows) == 26
    assert kept.store.written == written + 4
    shop.mirrors.execute("update offers set ends = 'infinity' where id = 2")
    shop.step()  # and a change behind a tick is newer than it
    shop.check()
    assert len(kept.store.rows) == 27


def test_a_tick_that_was_killed_in_its_write_is_made_good(shop: EngineSetting) -> None:
    kept = shop.add("open", OPEN, ["id"])
    _time_passes(shop)
    before = read_progress(shop.conn).position
    tick(shop.conn, [kept.view])
    kept.store.dies = 2
    with pytest.raises(Killed):
        shop.keep()
    kept.store.dies = -1
    shop.begin_again()
    tick(shop.conn, [kept.view])
    assert read_progress(shop.conn).position > before
    shop.keep()
    shop.check()
    assert len(kept.store.rows) == 26


def test_each_view_has_its_time(shop: EngineSetting) -> None:
    now = 100.0
    clock = ViewClock(60.0, lambda: now)
    first = shop.add("first", OPEN, ["id"]).view
    other = shop.add("other", "select id, name from offers", ["id"]).view

    def ticked() -> bool:
        before = read_progress(shop.conn).batch
        clock.tick(shop.conn, [one.view for one in shop.views.values()])
        return read_progress(shop.conn).batch > before

    assert ticked(), "time has passed while nobody kept it"
    assert not ticked()
    now += 59
    assert not ticked()
    second = shop.add("second", OPEN, ["id"]).view
    assert ticked(), "a view that is new to it"
    now += 2
    assert ticked()
    asked = "select id from headwater.views where whole_seq is not null order by id"
    found = [id_ for (id_,) in shop.conn.execute(asked).fetchall()]
    assert found == [first.id, second.id]
    assert other.id not in found


def test_verify_says_that_it_cannot_compare_it(shop: EngineSetting) -> None:
    settings = shop.mirrors.config
    sql = ViewSql(shop.mirrors.source, settings, "open", OPEN, ("id",))
    with pytest.raises(ViewError, match="reads the clock"):
        sql.over_source({})
