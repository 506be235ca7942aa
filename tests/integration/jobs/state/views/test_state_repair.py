"""Rows that are written again, and keys that are watched, in the state database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.config import Config, parse_config
from cdc.errors import RetryableError, StateError
from jobs.state.batch.stream_offsets import advance, read_progress
from jobs.state.server.connection import Connection, connect, numbered
from jobs.state.views.dirty_keys import settle, take, waits_since
from jobs.state.views.generation_keys import generation_keys, live_record
from jobs.state.views.key_watch import key_watch
from jobs.state.views.missed_changes import makes_up, mark_every_key
from jobs.state.views.repair import is_written, make_anew
from jobs.state.views.rows_query import dirty_rows_sql
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.view_record import ViewRecord
from jobs.state.views.whole_recomputation import mark_whole, settle_whole
from tests.support.views.kept_views import kept_view, table

ROWS = "insert into item select i, 'n' || i from generate_series(1, 5) i"
HELD = "insert into shown.v1 select id, kind, md5('given')::uuid from item union all values "


@pytest.fixture
def state(database: str) -> Iterator[Connection]:
    with connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
def found(state: Connection) -> tuple[ViewRecord, ViewGeneration]:
    """A view of five rows, all of which the store was given, and of a sixth that is gone."""
    state.execute("create table public.item (id int primary key, kind text not null)")
    state.execute("set search_path = public")
    state.execute(ROWS)
    sql = "select id, kind, id * 2 as double from item"
    item = table("item", ["id"], ["kind"], id="integer", kind="text")
    made = kept_view(state, "v", sql, ["id", "kind"], [item])
    state.execute(f"{HELD} (6, 'n6', md5('given')::uuid)")
    return made


def dirty(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select id from dirty.v1 order by id")]


def due(conn: Connection, view: ViewGeneration) -> dict[int, bool]:
    """The rows that a turn would write: whether each is there."""
    taken = take(conn, view, 100)
    query = dirty_rows_sql(view, ["m.double"]).encode()
    rows = numbered(conn).execute(query, (taken.places,)).fetchall()
    return {int(row[5]): row[4] is not None for row in rows if row[5] is not None}


def write(conn: Connection, view: ViewGeneration) -> None:
    """As whoever keeps the view does."""
    with conn.transaction():
        settle(conn, view, take(conn, view, 100).places, read_progress(conn).batch, [], [])


def test_rows_of_keys_are_due_whether_they_are_there_or_not(
    state: Connection, found: tuple[ViewRecord, ViewGeneration]
) -> None:
    _, view = found
    before = read_progress(state)
    batch, keys = make_anew(state, view, [("2", "n2"), ("6", "n6"), ("7", "n7"), ("2", "n2")])
    assert keys == 3
    assert dirty(state) == [2, 6, 7]
    assert due(state, view) == {2: True, 6: False, 7: False}
    after = read_progress(state)
    assert after.batch == batch == before.batch + 1
    assert after.position > before.position
    assert not is_written(state, view, batch)
    write(state, view)
    assert is_written(state, view, batch)


def test_all_rows_are_due(state: Connection, found: tuple[ViewRecord, ViewGeneration]) -> None:
    _, view = found
    state.execute("insert into item values (9, 'nobody was told')")
    assert make_anew(state, view).keys == 7
    assert due(state, view) == {**dict.fromkeys((1, 2, 3, 4, 5, 9), True), 6: False}


def test_without_a_plan_all_are_what_the_store_was_given(
    state: Connection, found: tuple[ViewRecord, ViewGeneration], tmp_path: Path
) -> None:
    record, view = found
    elsewhere = config(tmp_path)
    assert live_record(state, elsewhere, "v") == record
    assert live_record(state, elsewhere, "other") is None
    keys = generation_keys(state, record)
    assert keys.key == view.key
    make_anew(state, keys)
    assert dirty(state) == [1, 2, 3, 4, 5, 6]


def test_a_key_that_is_dirty_already_waits_for_the_batch_that_made_it_so(
    state: Connection, found: tuple[ViewRecord, ViewGeneration]
) -> None:
    _, view = found
    first, _ = make_anew(state, view, [("1", "n1")])
    second, _ = make_anew(state, view, [("1", "n1")])
    with state.transaction():
        settle(state, view, take(state, view, 100).places, first, [], [])
    assert dirty(state) == [1]
    assert not is_written(state, view, first)
    write(state, view)
    assert is_written(state, view, second)


def test_a_text_that_is_no_key_is_an_error_and_nothing_is_marked(
    state: Connection, found: tuple[ViewRecord, ViewGeneration]
) -> None:
    _, view = found
    with pytest.raises(StateError, match="written again"):
        make_anew(state, view, [("1", "n1"), ("x", "n")])
    assert dirty(state) == []
    assert read_progress(state).batch == 0


def test_a_watch_tells_the_keys_that_batches_have_dirtied_since(
    state: Connection, found: tuple[ViewRecord, ViewGeneration], database: str
) -> None:
    _, view = found
    with connect(database, autocommit=True) as other, key_watch(other, view) as watch:
        watch.begin()
        assert watch.look().keys == []
        make_anew(state, view, [("1", "n1"), ("3", "n3")])
        write(state, view)
        assert sorted(watch.look().keys or []) == [("1", "n1"), ("3", "n3")]
        watch.begin()
        assert watch.look().keys == []
        make_anew(state, view, [("3", "n3")])
        assert watch.look().keys == [("3", "n3")]
        with state.transaction():
            mark_whole(state, view, advance(state).batch)
        settle_whole(state, view, read_progress(state).batch)
        assert watch.look().keys is None
        watch.begin()
        assert watch.look().keys == []
    assert left(state) == 0


def test_what_a_watch_that_was_killed_has_left_is_removed(
    state: Connection, found: tuple[ViewRecord, ViewGeneration], database: str
) -> None:
    _, view = found
    killed = connect(database, autocommit=True)
    watching = key_watch(killed, view)
    watching.__enter__()
    with connect(database, autocommit=True) as other, key_watch(other, view):
        assert left(state) == 4, "the first one is alive"
    killed.close()
    with connect(database, autocommit=True) as other, key_watch(other, view):
        assert left(state) == 2
    make_anew(state, view, [("1", "n1")])
    assert left(state) == 0


def test_a_watch_that_may_not_wait_gives_way_to_batches(
    state: Connection, found: tuple[ViewRecord, ViewGeneration], database: str
) -> None:
    _, view = found
    with connect(database, autocommit=True) as batch, connect(database, autocommit=True) as other:
        with batch.transaction():
            make_anew(batch, view, [("1", "n1")])
            with pytest.raises(RetryableError, match="lock timeout"), key_watch(other, view, 50):
                raise AssertionError("the batch holds the keys")
        assert left(state) == 0
        watching = key_watch(other, view, 50)
        watch = watching.__enter__()
        watch.begin()
        with batch.transaction():
            make_anew(batch, view, [("3", "n3")])
            watching.__exit__(None, None, None)
            assert left(state) == 2, "what cannot be removed now is left to the next one"
        other.close()
    with connect(database, autocommit=True) as other, key_watch(other, view, 50):
        assert left(state) == 2, "its own"
    assert left(state) == 0


def config(state: Path) -> Config:
    source = {"name": "s", "dsn": "host=nowhere", "tables": ["public.*"]}
    document = {
        "source": source,
        "kafka": {"bootstrap_servers": "nowhere:9092"},
        "apply": {"state": str(state)},
    }
    return parse_config(document, {}, base=state)


def left(conn: Connection) -> int:
    query = "select count(*) from pg_trigger where tgname like 'watch%'"
    (count,) = conn.execute(query).fetchone() or (0,)
    return int(count)


def test_all_keys_of_a_view_that_is_loaded_in_turns_are_the_build_s(
    state: Connection, found: tuple[ViewRecord, ViewGeneration]
) -> None:
    """Also what batches have touched before."""
    _, view = found
    with state.transaction():
        touched = advance(state).batch
    values = f"(2, 'n2', {touched}, {touched}), (6, 'n6', {touched}, {touched})"
    state.execute(f"insert into dirty.v1 (id, kind, seq, first_seq) values {values}".encode())
    with state.transaction():
        mark_every_key(state, view)
    rows = state.execute("select id, first_seq from dirty.v1 order by id").fetchall()
    assert rows == [(number, 0) for number in range(1, 7)]
    assert makes_up(waits_since(state, view))
    write(state, view)
    assert not makes_up(waits_since(state, view))
