"""Commands on views that a running ``headwater apply`` carries out, and what it does unasked."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis

from cdc.config import load_config
from cdc.kafka.broker import Broker
from cdc.topics import view_group
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.views.view_status import state_session
from tests.support.commands.view_shop import ITEMS, KINDS, LOUD, ROWS, SPARE, Shop, opened
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Iterator[Shop]:
    home, views = tmp_path_factory.mktemp("commands"), {"items": ITEMS}
    with opened(home, postgres, kafka, redis_server, lender, views) as made:
        yield made


@pytest.fixture(scope="module")
def running(shop: Shop) -> Iterator[Child]:
    with shop.applied() as process:
        wait_until(lambda: shop.built("items"), "apply to build what is declared", 120)
        yield process


def test_a_view_is_created_while_apply_runs(shop: Shop, running: Child) -> None:
    name = shop.declare("kinds", KINDS, "tables")
    (built,) = json.loads(shop.done("view", "create", name, "--json"))
    assert (built["view"], built["live"], built["rows"]) == (name, True, 5)
    shop.deployment.execute("update item set kind_id = 1 where id = 2")

    def rows() -> list[Any]:
        with psycopg.connect(shop.store_dsn) as conn:
            return conn.execute(f"select id, name, items from {name} order by id").fetchall()

    wanted = [(one["id"], one["name"], one["items"]) for one in shop.expected(KINDS).values()]
    wait_until(lambda: sorted(rows()) == sorted(wanted), "the view to follow")
    assert running.poll() is None


def test_a_rebuild_is_switched_at_one_moment_and_can_be_gone_back_from(
    shop: Shop, running: Child
) -> None:
    name, over, seen = shop.name("items"), threading.Event(), list[Counter[bool]]()

    def read() -> None:
        while not over.wait(0.1):
            rows = shop.shown("items").values()
            seen.append(Counter(one["name"].isupper() for one in rows))

    def write() -> None:
        number = 0
        while not over.wait(0.1):
            number += 1
            shop.deployment.execute(f"update item set name = 'item {number}' where id % 7 = 1")

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    shop.declare("items", LOUD)
    try:
        (built,) = json.loads(shop.done("view", "rebuild", name, "--json"))
        wait_until(lambda: True in seen[-1], "readers to see it")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert built["live"]
    assert {sum(one.values()) for one in seen} == {ROWS}, "readers saw something half"
    assert {len(one) for one in seen} == {1}, "readers saw rows of two generations"
    shop.equal("items", LOUD)
    shop.deployment.execute("delete from item where id = 9", "update kind set name = 'other'")
    said = shop.deployment.run("view", "rollback", name)
    assert said.returncode == 0, said.stderr
    assert f"is live again, instead of {built['generation']}" in said.stdout
    assert "is not what is declared" in said.stderr
    shop.done("wait", name)
    assert shop.shown("items") == shop.expected(ITEMS), "readers lack what `wait` says is there"
    assert "has no generation 77" in shop.refused("view", "rollback", name, "--to", "77", code=2)
    shop.declare("items", ITEMS)
    shop.deployment.execute("update kind set name = 'kind ' || id")
    shop.equal("items", ITEMS)
    assert running.poll() is None


def test_a_held_generation_is_shown_by_the_next_rebuild(shop: Shop, running: Child) -> None:
    name, live = shop.name("items"), shop.live("items")
    with shop.deployment.running("view", "rebuild", name, "--hold") as held:
        wait_until(lambda: "held beside what is live" in shop.deployment.log("view"), "the hold")
        assert shop.live("items") == live
        assert "another command is running for view" in shop.refused(
            "view", "rebuild", name, code=2
        )
        held.send_signal(signal.SIGINT)
        assert held.wait(120) == 0
    assert shop.live("items") == live
    shop.deployment.execute("update item set name = 'while it was left' where id = 3")
    wait_until(lambda: "rebuild" not in str(shop.state()["commands"]), "apply to let go of it")
    said = shop.deployment.run("view", "rebuild", name)
    assert said.returncode == 0, said.stderr
    assert "is gone on with" in said.stderr
    assert shop.live("items") != live
    shop.equal("items", ITEMS)
    assert running.poll() is None


def test_a_dropped_view_takes_its_mirror_along(shop: Shop, running: Child) -> None:
    name = shop.declare("spare", SPARE)
    shop.done("view", "create", name)
    assert len(shop.shown("spare")) == 10
    assert "public.spare" in [one["table"] for one in shop.state()["mirrors"]]
    both = json.loads(shop.done("verify", name, shop.name("items"), "--json"))
    assert [(one["view"], one["equal"]) for one in both] == [
        (name, True), (shop.name("items"), True)
    ]  # fmt: skip
    with Broker(shop.deployment.bootstrap) as broker:
        wait_until(lambda: broker.existing_groups([view_group(name)]), "its first commit")
        assert "generation 1 dropped" in shop.done("view", "drop", name, "--yes")
        assert broker.existing_groups([view_group(name)]) == []
    shop.forget("spare")
    with pytest.raises(AssertionError, match="nothing is live"):
        shop.shown("spare")
    mirrors = {"public.item", "public.kind"}
    wait_until(lambda: {o["table"] for o in shop.state()["mirrors"]} == mirrors, "its mirror")
    shop.deployment.execute("update item set name = 'goes on' where id = 4")
    shop.equal("items", ITEMS)
    assert running.poll() is None


def test_a_view_lies_in_its_store_as_it_was_declared_when_it_was_built(
    shop: Shop, running: Child
) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)

    def keys() -> set[str]:
        rows = client.get(f"{name}@live")
        return {key.removeprefix(rows) for key in client.scan_iter(f"{rows}:*")}

    name = shop.declare("laid", SPARE, more='format = "json"\nkey_template = "word:{id}"\n')
    shop.done("view", "create", name)
    assert keys() == {f":word:{i}" for i in range(1, 11)}
    assert json.loads(client.get(f"{client.get(f'{name}@live')}:word:3"))["word"] == "word 3"
    assert "rows_kept_as_they_were_built" not in shop.deployment.log("apply")
    shop.declare("laid", SPARE, more='index_by = ["word"]\n')
    shop.done("view", "rebuild", name)
    live = client.get(f"{name}@live")
    assert keys() == {f":{i}" for i in range(1, 11)}
    assert list(client.scan_iter(f"{live}#word*")), "nothing is found by its word"
    shop.declare("laid", SPARE, more='key_template = "other:{id}"\n')
    shop.deployment.execute(  # so that the running apply opens it again, as it is declared now
        "alter table spare add column more int", "update spare set word = 'new' where id = 3"
    )
    wait_until(lambda: '"new"' in client.hget(f"{live}:3", "doc"), "the row to follow")
    assert keys() == {f":{i}" for i in range(1, 11)}
    shop.deployment.execute("update spare set word = 'word 3' where id = 3")
    shop.done("view", "drop", name, "--yes")
    shop.forget("laid")
    assert running.poll() is None


def test_a_view_that_is_not_declared_any_more_is_listed_and_dropped(
    shop: Shop, running: Child
) -> None:
    name = shop.declare("spare", SPARE)
    shop.done("view", "create", name)
    before = shop.deployment.log("apply").count("view_let_go")
    shop.forget("spare")
    wait_until(lambda: shop.deployment.log("apply").count("view_let_go") > before, "the letting go")
    assert len(shop.shown("spare")) == 10
    listed = {one["view"]: one for one in json.loads(shop.done("view", "list", "--json"))}
    assert (listed[name]["declared"], listed[shop.name("items")]["declared"]) == (False, True)
    assert "not declared" in shop.done("view", "list")
    _, found = shop.deployment.check()
    (warned,) = [one for one in found["warning"] if one["check"] == f"view {name}"]
    assert warned["hint"] == f"Run `headwater view drop {name}`, or declare it again."
    assert "generation 1 dropped" in shop.done("view", "drop", name, "--yes")
    with pytest.raises(AssertionError, match="nothing is live"):
        shop.shown("spare")
    assert name not in shop.done("view", "list", "--json")
    assert f"no view '{name}'" in shop.refused("view", "drop", name, code=2)
    mirrors = {"public.item", "public.kind"}
    wait_until(lambda: {o["table"] for o in shop.state()["mirrors"]} == mirrors, "its mirror")
    assert running.poll() is None


def test_rows_that_a_store_lost_are_written_again(shop: Shop, running: Child) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)
    rows = client.get(f"{shop.name('items')}@live")
    client.delete(*(f"{rows}:{i}" for i in range(20, 40)))
    done = json.loads(shop.done("replay", shop.name("items"), "--from", "beginning", "--json"))
    assert done["rows"] == len(shop.expected(ITEMS))
    assert shop.shown("items") == shop.expected(ITEMS)
    assert "tomorrow" in shop.refused("replay", shop.name("items"), "--from", "tomorrow", code=2)
    assert running.poll() is None


def test_mirrors_that_differ_from_their_tables_are_filled_again(shop: Shop, running: Child) -> None:
    with state_session(load_config(shop.deployment.config)) as conn:
        assert conn is not None
        held = read_mirrors(conn)["public.item"].table
        bend = f"update {held.relation} set name = 'of no one' where id < 5"
        conn.execute(bend.encode())
        # What a partition leaves that is detached: no event tells of its rows.
        names = ", ".join(column.quoted for column in held.columns if column.name != "id")
        conn.execute(
            f"insert into {held.relation} (id, {names}, __lsn, __ordinal) "
            f"select id + 100000, {names}, __lsn, __ordinal from {held.relation} "
            "where id in (7, 8)".encode()
        )
        shop.done("replay", shop.name("items"), "--from", "beginning")
        name = shop.name("items")
        told = json.loads(shop.done("verify", name, "--repair", "--json"))
        assert (told["different"], told["extra"], told["repaired"]) == (4, 2, 6)
        assert (told["beyond_repair"], told["equal"]) == (0, True)
        assert shop.shown("items") == shop.expected(ITEMS)
        gone = conn.execute(f"select from {held.relation} where id > 100000".encode())
        assert gone.rowcount == 0
        conn.execute(bend.encode())
    shop.done("view", "rebuild", name, "--refill")
    assert shop.shown("items") == shop.expected(ITEMS)
    shop.done("verify", name)
    assert running.poll() is None


def test_a_row_that_the_store_refuses_waits_until_it_is_retried(shop: Shop, running: Child) -> None:
    name = shop.name("kinds")
    with psycopg.connect(shop.store_dsn, autocommit=True) as conn:
        conn.execute(f'alter table "{name}@1" add constraint short check (length(name) < 20)')
        long = "a name that is too long"
        shop.deployment.execute(f"update kind set name = '{long}' where id = 2")

        def parked() -> Any:
            return json.loads(shop.done("dead-letters", "list", name, "--json"))

        wait_until(parked, "its key to be parked")
        (one,) = parked()
        assert (one["of"], json.loads(one["key"])) == (name, {"id": "2"})
        assert "short" in one["cause"]
        assert "1 key parked" in shop.done("view", "list")
        assert json.loads(shop.done("dead-letters", "show", one["id"])) == {"id": "2"}
        left = shop.deployment.run("dead-letters", "retry", name, "--key", "id=2")
        assert left.returncode == 1
        assert "id=2 stays parked" in left.stdout
        conn.execute(f'alter table "{name}@1" drop constraint short')
        assert "1 event of 1 key applied" in shop.done("dead-letters", "retry", name)
        assert not parked()
        found = conn.execute(f"select name from {name} where id = 2").fetchone()
        assert found == (long,)
    assert running.poll() is None


def test_a_view_that_is_mended_is_taken_back(shop: Shop, running: Child) -> None:
    name = shop.declare("spare", "select id, wort from spare")
    (fault,) = wait_until(
        lambda: [
            one["error"]
            for one in json.loads(shop.done("view", "list", "--json"))
            if one["view"] == name and one["error"]
        ],
        "the fault to be told",
    )
    assert "wort" in fault
    assert "wort" in shop.refused("view", "create", name)
    shop.declare("spare", SPARE)
    wait_until(lambda: shop.built("spare"), "it to be built")
    shop.forget("spare")
    assert running.poll() is None


def test_what_a_rebuild_would_change_is_told_before_it(shop: Shop, running: Child) -> None:
    """The declared SQL beside the live one: rows and columns counted, some keys shown."""
    name, before = shop.name("items"), shop.views["items"][1]
    rows = len(shop.expected(before))
    same = json.loads(shop.done("view", "diff", name, "--json"))
    assert (same["equal"], same["live_rows"], same["declared_rows"]) == (True, rows, rows)
    lowest = sorted(shop.expected(before))[:3]
    other = (
        f"select i.id, case when i.id <= {lowest[2]} then i.name || '!' else i.name end as name, "
        f"i.n from item i where i.id > {lowest[0]}"
    )
    live = shop.live("items")
    shop.declare("items", other)
    told = shop.deployment.run("view", "diff", name, "--keys", "3", "--json")
    assert told.returncode == 1, told.stderr
    found = json.loads(told.stdout)
    assert (found["added"], found["removed"], found["changed"]) == (0, 1, 2)
    assert found["columns"] == {"name": 2}
    assert (found["new_columns"], found["lost_columns"]) == (["n"], ["kind"])
    assert found["keys"][0] == {"kind": "removed", "key": {"id": str(lowest[0])}}
    assert "0 added, 1 removed, 2 changed" in shop.deployment.run("view", "diff", name).stdout
    shop.declare("items", before)
    assert shop.live("items") == live, "nothing was built"
    assert running.poll() is None


def test_a_view_is_shown_with_its_plan(shop: Shop, running: Child) -> None:
    found = json.loads(shop.done("view", "show", shop.name("items"), "--plan", "--json"))
    assert (found["mode"], found["problems"]) == ("incremental", [])
    assert [one["mirror"]["state"] for one in found["tables"]] == ["filled", "filled"]
    assert {one["table"] for one in found["plan"]["changes"]} == {"public.item", "public.kind"}
    told = shop.done("view", "show", shop.name("items"), "--plan")
    assert "touched_keys" in told
    assert "mirror:" in told
    assert "public.item" in shop.done("state")
    assert running.poll() is None


def test_a_second_apply_is_refused(shop: Shop, running: Child) -> None:
    said = shop.refused("apply")
    assert "is in use by" in said
    assert f"pid {running.pid}" in said


def test_an_apply_that_dies_is_told_and_the_next_one_goes_on(shop: Shop, running: Child) -> None:
    name, live = shop.name("items"), shop.live("items")
    before = shop.deployment.log("view").count("held beside")
    with shop.deployment.running("view", "rebuild", name, "--hold") as held:
        wait_until(lambda: shop.deployment.log("view").count("held beside") > before, "the hold")
        running.kill()
        assert held.wait(60) == 1
    assert "the `headwater apply` that ran the command has ended" in shop.deployment.log("view")
    shop.deployment.execute("update item set name = 'while nobody ran' where id = 5")
    with shop.applied():
        shop.equal("items", ITEMS)
        assert shop.live("items") == live
        assert "is live" in shop.done("view", "rebuild", name)
        shop.equal("items", ITEMS)


def test_commands_without_an_apply_and_views_that_it_had_left_out(shop: Shop) -> None:
    name = shop.name("items")
    with shop.applied(name):
        shop.deployment.execute("update item set kind_id = 3 where id = 6")
        shop.equal("items", ITEMS)
        left_out = shop.name("kinds")
        assert "does not maintain view" in shop.refused("view", "rebuild", left_out, code=2)
        nobody = f"view {left_out}: no process applies it"
        shop.done("lag", name)
        for command in (["lag"], ["health", "--views", "--max-lag", "60"], ["check", "--json"]):
            ended = shop.deployment.run(*command)
            assert ended.returncode == 1, command
            assert nobody in " ".join((ended.stdout + ended.stderr).split()), command
        assert "not applied" in shop.done("view", "list")
        assert json.loads(shop.done("view", "show", left_out, "--json"))["applied"] is False
    (built,) = json.loads(shop.done("view", "rebuild", name, "--json"))
    assert built["live"]
    assert not built["applied"]
    shop.equal("items", ITEMS)
    with shop.applied(), psycopg.connect(shop.store_dsn, autocommit=True) as conn:
        query = f"select id, name, items from {shop.name('kinds')}"
        wanted = {(o["id"], o["name"], o["items"]) for o in shop.expected(KINDS).values()}
        wait_until(lambda: set(conn.execute(query).fetchall()) == wanted, "kinds to be made up for")
        wait_until(lambda: not shop.deployment.run("health", "--views").returncode, "all is well")
        shop.done("lag")
        assert shop.deployment.check()[0] == 0
    assert "no process applies them" in shop.refused("health", "--views")
