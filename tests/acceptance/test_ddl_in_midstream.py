"""DDL in the middle of transactions, under views that are kept meanwhile: each goes on and is equal
to its SQL, or stops alone and says why; a rebuild makes that one equal."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.support.commands.deployment import Deployment, done
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

TABLES = (
    "create table items (id int primary key, n int, body text,"
    " f real default 0.1, p numeric(10,2) default 1.5, doc jsonb default '{\"a\": 1.50}')",
    "create table notes (id int primary key, body text, day text, other int)",
    "create table anew (id int primary key, a int, b text, c int)",
    "create table typed (id int primary key, a int, b text)",
    "insert into items select i, i, 'item ' || i from generate_series(1, 50) i",
    "insert into notes select i, 'note ' || i, '2026-01-01', -i from generate_series(1, 50) i",
    "insert into anew select i, i, 'b ' || i, -i from generate_series(1, 50) i",
    "insert into typed select i, i, 'b ' || i from generate_series(1, 50) i",
)
VIEWS = {
    "items_lake": ("lake", "select * from items"),
    "items_cache": ("cache", "select * from items"),
    "items_search": ("search", "select * from items"),
    "items_base": ("base", "select * from items"),
    "notes_body": ("cache", "select id, body, other from notes"),
    "notes_day": ("search", "select id, day from notes"),
    "notes_other": ("lake", "select id, other from notes"),
    "anew_named": ("base", "select id, a, c from anew"),
    "anew_all": ("cache", "select * from anew"),
    "typed_named": ("lake", "select id, a from typed"),
}
ADDED = """
begin; insert into items values (51, 51, 'before'); alter table items add late text;
insert into items (id, n, body, late) values (52, 52, 'behind', 'late');
update items set late = 'now' where id < 5;
commit
"""
WIDER = """
begin; update items set n = -n where id < 5;
alter table items alter n type bigint, alter f type float8, alter p type numeric(14,4);
insert into items (id, n, body, f, p) values (53, 1::bigint << 40, 'wide', 1e200, 1e8 + 0.0001);
commit
"""
DROPPED = """
begin; update notes set other = 7, body = 'last' where id < 5; alter table notes drop body;
insert into notes values (51, '2026-02-02', 51); commit
"""
RETYPED = """
begin; update notes set other = 8 where id < 5;
alter table notes alter day type date using day::date;
insert into notes values (52, '2026-03-03', 52); commit
"""
MADE_ANEW = """
begin; update anew set a = a + 1 where id = 1; drop table anew;
create table anew (c int, b text, extra text, a int, id int primary key);
insert into anew select -i, 'new b ' || i, 'extra', i + 1000, i from generate_series(1, 60, 2) i;
commit
"""
ANOTHER_TYPE = """
begin; drop table typed; create table typed (b int, a text, id int primary key);
insert into typed select i, 'text ' || i, i from generate_series(1, 60, 2) i; commit
"""
REASONS = {
    "notes_body": "public.notes lost body text",
    "notes_day": "the store holds day string, now date",
    "typed_named": "the store holds a int, now string",
}
"""Of the views that stop: what their reason says that differs."""
LATER = (
    "update items set n = n + 1, late = 'later' where id % 3 = 0",
    "update notes set other = other + 1, day = '2026-04-04' where id % 3 = 0",
    "update anew set a = a + 1, c = c - 1 where id % 3 = 0",
    "update typed set a = a || '!' where id % 3 = 0",
    "delete from items where id = 7; delete from notes where id = 7",
    "delete from anew where id = 7; delete from typed where id = 7",
)


@pytest.fixture
def shop(
    tmp_path: Path,
    source_name: str,
    database: str,
    kafka: str,
    redis_server: str,
    opensearch: str,
    store_database: str,
    lender: Lender,
) -> Deployment:
    stores = f"""
[stores.lake]
kind = "delta"
path = "{tmp_path}/lake"
[stores.cache]
kind = "redis"
url = "{redis_server}"
[stores.search]
kind = "opensearch"
url = "{opensearch}"
[stores.base]
kind = "postgres"
dsn = "{store_database}"
[apply]
state = "{tmp_path}/state"
"""
    views = (
        f'[views.{source_name}_{view}]\nstore = "{store}"\nkey = ["id"]\nsql = "{sql}"\n'
        for view, (store, sql) in VIEWS.items()
    )
    mapping = f'[views.{source_name}_items_search.mapping]\ndoc = {{ type = "object" }}\n'
    extra = stores + "".join(views) + mapping
    made = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    made.execute(*TABLES)
    made.init()
    return made


@pytest.mark.timeout(1800)
def test_views_go_on_or_stop_alone_with_the_reason_and_a_rebuild_makes_them_equal(
    shop: Deployment,
) -> None:
    with shop.running("capture") as capture:
        with shop.running("apply", "--json") as apply:
            _reached(shop, *VIEWS)
            shop.execute(ADDED)
            _reached(shop, "items_lake", "items_cache")
            _equal(shop, "items_search", "items_base")  # the others are looked at below
            ended: dict[str, str] = {}
            shop.execute(WIDER)  # which every store follows
            shop.execute(DROPPED)
            ended |= _stopped(shop, apply, {*ended, "notes_body"})
            shop.execute(RETYPED)
            ended |= _stopped(shop, apply, {*ended, "notes_day"})
            shop.execute(MADE_ANEW, ANOTHER_TYPE)
            done(shop, "table", "add", "public.anew")
            done(shop, "table", "add", "public.typed")
            # Marks, and so `wait`, count what capture has sent: this stands behind the rows that
            # `table add` sent, in each partition.
            shop.execute("update anew set a = a + 1")
            ended |= _stopped(shop, apply, REASONS)
            _equal(shop, *(VIEWS.keys() - ended.keys()))
            _told(ended)
            adapted = "select id, other from notes"
            shop.extra = shop.extra.replace(VIEWS["notes_body"][1], adapted)
            done(shop, "view", "rebuild", *(f"{shop.name}_{view}" for view in ended))
            shop.execute(*LATER)
            _equal(shop, *VIEWS)  # the running apply has taken back those that were rebuilt
            assert apply.poll() is None
        assert capture.poll() is None


_BEFORE_ADD = "not in publication"
"""What a view says of a table that was made anew, if it looks before ``table add``."""


def _told(ended: dict[str, str]) -> None:
    """What differs stands in each reason, and what to do."""
    for view, reason in REASONS.items():
        assert reason in ended[view], ended[view]
        assert "rebuild" in ended[view].lower(), ended[view]


def _reached(shop: Deployment, *views: str) -> list[str]:
    """Their full names, when they hold what is committed by now."""
    names = [f"{shop.name}_{view}" for view in views]
    done(shop, "wait", *names, "--timeout", "900")
    return names


def _equal(shop: Deployment, *views: str) -> None:
    for name in _reached(shop, *views):
        assert "equal at LSN" in done(shop, "verify", name, "--timeout", "900")


def _stopped(shop: Deployment, apply: Child, views: Collection[str]) -> dict[str, str]:
    """Wait until these views have stopped, and no others; why."""

    def found() -> dict[str, str]:
        if apply.poll() is not None:
            raise RuntimeError(f"apply has ended:\n{shop.log('apply')}")
        lines = [
            line
            for line in shop.log("apply").splitlines()
            if '"view_stopped"' in line and _BEFORE_ADD not in line
        ]
        said = {one["view"]: one["error"] for one in map(json.loads, lines)}
        ended = {name.removeprefix(f"{shop.name}_"): error for name, error in said.items()}
        return ended if ended.keys() >= set(views) else {}

    ended = wait_until(found, f"{views} to stop", 900)
    assert ended.keys() == set(views)
    return ended
