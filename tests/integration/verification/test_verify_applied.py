"""``verify``, ``wait`` and ``lag`` of views of any SELECT beside a running ``headwater apply``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis

import headwater
from cdc.lsn import parse_lsn
from headwater.lag.verified import Verified, read_verified
from jobs.generations.view_state import view_directory
from tests.support.commands.scraping import SLACK_S
from tests.support.commands.verified_shop import VIEWS, Shop, calm, verified_shop
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
    with verified_shop(
        tmp_path_factory.mktemp("verified"), postgres, kafka, redis_server, lender
    ) as made:
        yield made


@pytest.mark.timeout(600)
def test_views_are_equal_while_their_tables_change(shop: Shop) -> None:
    names = [shop.name(view) for view in VIEWS]
    with shop.changing():
        reports = json.loads(shop.deployment.run("verify", *names, "--json").stdout)
        assert [report["view"] for report in reports] == names
        for report in reports:
            assert report["differences"] == []
            assert (report["missing"], report["extra"], report["different"]) == (0, 0, 0)
    assert all(report["equal"] for report in shop.json("verify", *names))


@pytest.mark.timeout(600)
def test_rows_that_are_wrong_are_found_and_repaired_while_others_change(shop: Shop) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)
    prefix = client.get(f"{shop.name('ranked')}@live")
    held = client.hgetall(f"{prefix}:150")
    assert client.delete(f"{prefix}:151") == 1
    document = json.loads(held["doc"])
    client.hset(f"{prefix}:150", "doc", json.dumps(document | {"name": "bent"}))
    client.hset(f"{prefix}:999", mapping=held | {"doc": json.dumps(document | {"id": 999})})
    with shop.changing():
        report = shop.json("verify", shop.name("ranked"), code=1)
        kinds = {item["key"]["id"]: item["kind"] for item in report["differences"]}
        assert kinds == {150: "different", 151: "missing", 999: "extra"}
        done = shop.deployment.run("verify", shop.name("ranked"), "--repair", "--json")
        report = json.loads(done.stdout)
        assert (report["repaired"], report["awaiting"], report["beyond_repair"]) == (3, 0, 0)
    assert shop.json("verify", shop.name("ranked"))["equal"]


@pytest.mark.timeout(600)
def test_what_was_written_is_waited_for_and_read(shop: Shop) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)
    prefix = client.get(f"{shop.name('ranked')}@live")
    names = [shop.name(view) for view in VIEWS]
    with (
        headwater.Views(shop.deployment.config) as views,
        psycopg.connect(shop.deployment.dsn) as conn,
    ):
        for number in range(10):
            conn.execute("update customers set name = %s where id = 100", [f"new {number}"])
            conn.commit()
            reached = views.wait(*names, lsn=headwater.current_lsn(conn), timeout_s=60)
            assert reached.parked == {}
            assert json.loads(client.hget(f"{prefix}:100", "doc"))["name"] == f"new {number}"
    found = shop.json("wait", *names)
    assert [one["reached"] for one in found["views"]] == [True, True, True]
    lag = shop.json("lag", *names)
    topics = {(one["view"], one["topic"].rpartition(".")[2]) for one in lag["views"]}
    assert topics == {(names[0], "customers"), *((name, "orders") for name in names)}
    # Fresh where a heartbeat is under way.
    assert {one["state"] for one in lag["views"]} <= {"idle", "fresh"}
    assert lag["faults"] == []


@pytest.mark.timeout(600)
def test_the_way_of_one_row_is_shown_from_its_commit_to_the_stores(shop: Shop) -> None:
    names = ranked, placed, paid = [shop.name(view) for view in ("ranked", "placed", "paid")]
    age = shop.committed("update orders set paid = 17 where id = 133")
    shop.json("wait", *names)
    found = shop.json("trace", "orders", "133")
    newest, first = found["changes"]
    assert (newest["op"], first["op"]) == ("update", "snapshot")
    assert age.agrees(time.time() - newest["committed_s"])
    assert newest["committed_s"] <= newest["captured_s"] <= newest["sent_s"]
    assert found["searched"]["all"]
    views = {one["view"]: one for one in found["views"]}
    assert {view for view, one in views.items() if one["applied"]} == {*names}
    for view in (ranked, placed):
        why = views[view]["row_not_checked"]
        assert why.startswith("the view's row is not made of this row alone: "), why
    assert views[paid]["row"]["present"], views[paid]
    assert parse_lsn(views[paid]["row"]["version_lsn"]) >= parse_lsn(newest["lsn"])
    batch, made = views[paid]["batch"], views[paid]["row"]["batch"]
    assert [one["batch"] for one in views.values()] == [batch] * 3, "one batch for all views"
    assert newest["sent_s"] <= batch["applied_s"] <= views[paid]["last_applied_s"] + 0.001
    assert made["number"] >= batch["number"]
    assert made["applied_s"] >= batch["applied_s"]

    with shop.frozen("apply"):
        shop.committed("update orders set paid = 18 where id = 133")
        shop.deployment.captured()
        behind = shop.json("trace", "public.orders", "id=133", "--changes", "1", code=1)
        assert [one["op"] for one in behind["changes"]] == ["update"]
        assert {one["applied"] for one in behind["views"]} == {False}
        assert [one["batch"] for one in behind["views"]] == [None] * 3
        assert "0 records before it" in {one["waits_for"] for one in behind["views"]}
        nothing = shop.json("trace", "orders", "133", "--since", "0", code=1)
        assert (nothing["changes"], nothing["searched"]["all"]) == ([], False)
    told = {
        ("orders", "x"): "no such key: invalid input syntax for type integer",
        ("orders", "a=1", "b=2"): "its key is id",
        ("nowhere", "1"): "the source has no table public.nowhere",
    }
    for arguments, words in told.items():
        refused = shop.deployment.run("trace", *arguments)
        assert refused.returncode == 2
        assert words in " ".join(refused.stderr.split()), refused.stderr
    assert shop.json("trace", "orders", "999999", code=1)["changes"] == []
    shop.json("wait", *names)
    said = " ".join(shop.deployment.run("trace", "orders", "133").stdout.split())
    assert "in batch" in said
    assert "made after batch" in said


@pytest.mark.timeout(600)
def test_a_running_apply_proves_views_equal_and_finds_rows_that_are_not(shop: Shop) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)
    view, source, declared = shop.name("ranked"), shop.deployment.name, shop.deployment.extra
    checks: dict[tuple[str, int], Verified] = {}

    def differences() -> float | None:
        return shop.scrape("apply").get(("headwater_view_differences", source, view))

    def proven_lsn(of: str) -> float:
        name = "headwater_view_verified_lsn"
        return shop.scrape("apply").get((name, source, shop.name(of)), 0.0)

    def each_is_checked() -> bool:
        for of in VIEWS:
            directory = view_directory(str(shop.deployment.home / "state"), source, shop.name(of))
            if (found := read_verified(directory)) is not None:
                checks[of, found.lsn] = found
        return len(checks) > len(VIEWS) and {of for of, _ in checks} == {*VIEWS}

    shop.deployment.extra += '[verify]\nevery = "1s"\n'
    shop.deployment.write()
    try:
        with shop.changing():
            wait_until(each_is_checked, "each view to be checked, and one again")
        found = {(one.differing, one.reason) for one in checks.values()}
        assert found == {((), "")}, "changes are no differences"
        assert all(one.keys > one.skipped for one in checks.values()), "most rows stand still"
        first = max(lsn for _, lsn in checks)
        wait_until(lambda: proven_lsn("ranked") > first, "it to be proven")
        assert differences() == 0
        prefix = client.get(f"{view}@live")
        document = json.loads(client.hget(f"{prefix}:150", "doc"))
        client.hset(f"{prefix}:150", "doc", json.dumps(document | {"name": "bent"}))
        client.delete(f"{prefix}:151")
        wait_until(lambda: differences() == 2, "what is wrong to be found")
        told = shop.json("lag", view)["summary"][0]["verified"]
        assert (told["differences"], told["not_checked"]) == (2, None)
        assert "2 rows differ from the source" in shop.deployment.run("view", "show", view).stdout
        log = shop.deployment.log("apply").splitlines()
        line = [one for one in log if "view_differs" in one][-1]
        assert json.loads(line)["keys"] == [{"id": 150}, {"id": 151}]
        assert "bent" not in line
        shop.json("verify", view, "--repair")
        wait_until(lambda: differences() == 0, "what is right again to be found")
        wait_until(lambda: all(map(proven_lsn, VIEWS)), "all views to be proven")
    finally:
        shop.deployment.extra = declared
        shop.deployment.write()


@pytest.mark.timeout(600)
def test_lag_is_true_while_each_part_stands_in_turn(shop: Shop) -> None:
    view, source = shop.name("placed"), shop.deployment.name
    calm(shop)
    for process in ("capture", "apply"):
        for path in ("/livez", "/readyz"):
            assert shop.get(process, path)[0] == 200, (process, path, shop.get(process, path))
    found = shop.scrape("capture")
    assert found["headwater_slot_active", source] == 1
    assert abs(found["headwater_source_clock_offset_seconds", source]) < SLACK_S
    seen = shop.scrape("apply")
    heartbeat_s = seen["headwater_view_heartbeat_timestamp_seconds", source, view]
    assert time.time() - heartbeat_s < 10, "a heartbeat each second, all the way"
    _capture_stands(shop, view)
    calm(shop)
    _apply_stands(shop, view)
    calm(shop)
    _store_stands(shop, view)
    calm(shop)


def _lag_s(shop: Shop, view: str) -> float:
    lag = "headwater_view_lag_seconds", shop.deployment.name, view
    return shop.scrape("apply").get(lag, 0.0)


def _capture_stands(shop: Shop, view: str) -> None:
    source = shop.deployment.name
    unknown = "headwater_view_state", "source unknown", source, view
    with shop.frozen("capture"):
        age = shop.committed("update orders set paid = paid + 1 where id = 7")
        wait_until(lambda: _lag_s(shop, view) > 4, "what is not captured to be lag")
        wait_until(
            lambda: age.agrees(_lag_s(shop, view)),
            "what capture has not read to be lag of the view",
        )
        found = shop.scrape("apply")
        assert found["headwater_view_lag_records", source, view] == 0, "Kafka has nothing of it"
        wait_until(
            lambda: shop.scrape("apply")[unknown] == 1,
            "the source to be unknown when three heartbeats are missing",
        )
        wait_until(lambda: age.agrees(_lag_s(shop, view)), "its lag to be known all the same")
        told = shop.json("lag")
        assert {one["state"] for one in told["summary"]} == {"source unknown"}
        assert age.agrees(shop.json("view", "show", view)["lag"]["behind_s"])
        unwell = shop.json("health", "--views", "--max-lag", "3", code=1)
        late = [one for one in unwell["problems"] if one.startswith(f"view {view} is ")]
        assert late
        assert late[0].endswith("more than 3: the change is not in Kafka yet")
        unwell = shop.json("health", "--views", "--max-lag", "600", code=None)
        of_views = [one for one in unwell["problems"] if one.startswith("view ")]
        assert not of_views, "a frozen capture loses its slot after a while, no view is late for it"


def _apply_stands(shop: Shop, view: str) -> None:
    with headwater.Views(shop.deployment.config) as views, shop.frozen("apply"):
        before = views.lag()
        assert before.keys() == {shop.name(one) for one in VIEWS}
        assert all(one.fresh and one.behind_records == 0 for one in before.values())
        age = shop.committed(*(f"update orders set paid = 3 where id = {n}" for n in range(1, 8)))
        shop.deployment.captured()
        asked = views.lag(view)[view]
        assert age.agrees(asked.behind_s or 0.0), asked
        assert (asked.behind_records, asked.parked_keys, asked.blocked_by) == (7, 0, "")
        with pytest.raises(headwater.UsageError, match="no view 'nothing'"):
            views.lag(view, "nothing")
        (told,) = shop.json("lag", view)["summary"]
        assert told["behind_records"] == 7
        assert age.agrees(told["behind_s"]), told
        assert told["kafka_to_view_s"] <= told["behind_s"]
        assert told["state"] in ("fresh", "falling back")
        document = shop.json("lag", view, "--partitions")
        assert sum(one["behind_records"] for one in document["views"]) == 7


def _store_stands(shop: Shop, view: str) -> None:
    source = shop.deployment.name
    shop.store.stall()
    try:
        age = shop.committed("update orders set paid = 4 where id = 9")
        wait_until(
            lambda: "does not answer" in shop.get("apply", "/readyz")[1], "the store to be missed"
        )
        assert shop.get("apply", "/readyz")[0] == 503
        wait_until(lambda: age.agrees(_lag_s(shop, view)), "the change to be lag")
        records = "headwater_view_lag_records", source, view
        wait_until(lambda: shop.scrape("apply")[records] == 1, "the change to be in Kafka")
        stalled = "headwater_view_state", "stalled", source, view
        wait_until(lambda: shop.scrape("apply")[stalled] == 1, "the view to have stalled")
        assert shop.get("apply", "/livez")[0] == 200, "to start it again would not help"
        assert shop.get("capture", "/readyz")[0] == 200
    finally:
        shop.store.release()
