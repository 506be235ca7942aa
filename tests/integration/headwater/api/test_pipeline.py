"""What the server shows of a pipeline that runs, and what it has done for an operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc.lag.states import GOOD
from tests.support.commands import view_shop
from tests.support.commands.view_shop import Shop
from tests.support.serve.served import Answer, Served
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shop(
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Shop, Served]]:
    """A view that is applied, and a server."""
    home = tmp_path_factory.mktemp("shown")
    views = {"items": view_shop.ITEMS}
    with view_shop.opened(home, postgres, kafka, redis_server, lender, views) as found:
        found.declare("kinds", view_shop.KINDS, "tables")
        served = Served(found.deployment)
        with found.applied(), served.running():
            wait_until(lambda: found.built("items", "kinds"), "the views to be built")
            yield found, served


def read(served: Served, path: str, **query: str) -> Any:
    answer = served.ask("GET", path, query=query)
    assert answer.status == 200, answer.body
    return answer.document


def act(served: Served, path: str, **body: Any) -> Answer:
    headers = {"Content-Type": "application/json"}
    return served.ask("POST", path, headers, json.dumps(body).encode())


def job(served: Served, answer: Answer) -> Any:
    """That of an action, when it has ended."""
    assert answer.status in (200, 202), answer.body

    def ended() -> Any:
        found = read(served, answer.headers["location"])
        return found if found["status"] != "running" else None

    return wait_until(ended, f"{answer.document['action']} to end")


def done(served: Served, path: str, **body: Any) -> Any:
    """The job of an action that succeeds."""
    found = job(served, act(served, path, **body))
    assert found["status"] == "done", found
    return found


def refusal(served: Served, path: str, status: int, **body: Any) -> str:
    """The words that an action is refused with, at once or, on a busy machine, later."""
    answer = act(served, path, **body)
    if answer.status == 202:
        found = job(served, answer)
        assert found["status"] == "failed", found
    else:
        found = answer.document
        assert answer.status == status, answer.body
    return str(found["detail"]).rstrip(".").lower()


def test_the_picture_is_green_when_all_is_applied_and_each_page_has_its_figures(
    shop: tuple[Shop, Served],
) -> None:
    found, served = shop
    name = found.name("items")
    wait_until(lambda: read(served, "/pipeline")["state"] in GOOD, "the pipeline to be green")
    picture = read(served, "/pipeline")
    assert [(one["begin"], one["end"]) for one in picture["arrows"]] == [
        ("source", "capture"), ("capture", "topics"), *[("topics", "view"), ("view", "store")] * 2,
    ]  # fmt: skip
    assert all(one["lag_s"] is not None for one in picture["arrows"])
    (line,) = (one for one in picture["views"] if one["view"] == name)
    assert (line["kind"], line["parked_keys"]) == ("redis", 0)
    source = read(served, "/source")
    slot = source["slot"]
    assert (slot["active"], slot["wal_status"]) == (True, "reserved")
    assert slot["restart_lsn"]
    wait_until(lambda: read(served, "/source")["checks"], "the first check")
    checks = read(served, "/source")["checks"]
    assert "slot" in {one["check"] for one in checks}
    topics = {one["table"]: one for one in read(served, "/topics")["topics"]}
    assert topics["public.item"]["records"] >= view_shop.ROWS
    assert topics["public.item"]["views"] == [name, found.name("kinds")]
    view = read(served, f"/views/{name}")
    assert view["sql"] == view_shop.ITEMS
    assert view["tables"] == ["public.item", "public.kind"]
    assert (view["live"], view["applied"], view["problems"]) == (1, True, [])
    assert {one["topic"] for one in view["partitions"]} == {
        f"{found.deployment.name}.public.item", f"{found.deployment.name}.public.kind"
    }  # fmt: skip
    (first,) = read(served, "/snapshots")["snapshots"]
    assert (first["kind"], first["status"], first["share"]) == ("initial", "complete", 1.0)
    assert read(served, "/dead-letters")["keys"] == 0
    assert read(served, "/alarms")["judged_at_s"]
    assert served.get("/views/nowhere").status == 404
    assert served.get("/alarms/HW999").status == 404


def test_one_row_is_traced(shop: tuple[Shop, Served]) -> None:
    _, served = shop
    found = read(served, "/trace/item", key="7")
    assert found["key"] == {"id": "7"}
    assert found["changes"]
    assert [one["applied"] for one in found["views"]] == [True, True]


def test_the_past_is_shown(shop: tuple[Shop, Served]) -> None:
    found, served = shop
    name = found.name("items")
    wait_until(lambda: read(served, "/history", view=name)["at_s"], "the first step")
    past = read(served, "/history", view=name)
    assert {(one["name"], one["view"]) for one in past["series"]} == {
        ("state", ""), ("lag_s", ""), ("records_s", ""), ("state", name), ("lag_s", name),
        ("records_s", name), ("lag_records", name),
    }  # fmt: skip
    assert read(served, "/history")["step_s"] == 5
    assert read(served, f"/views/{name}/freshness")["view"] == name
    assert served.get("/history", view="nowhere").status == 404


def test_a_view_is_rebuilt_rolled_back_replayed_and_verified(shop: tuple[Shop, Served]) -> None:
    found, served = shop
    name = found.name("items")
    built = done(served, f"/views/{name}/rebuild")
    assert built["result"]["generation"] == 2
    assert built["steps"], "what it did is told"
    assert read(served, f"/views/{name}")["live"] == 2
    done(served, f"/views/{name}/rollback")
    assert read(served, f"/views/{name}")["live"] == 1
    assert done(served, f"/views/{name}/replay", place="beginning")["result"]["rows"]
    checked = done(served, f"/views/{name}/verify", timeout_s=60)["result"]
    assert (checked["equal"], checked["view_rows"]) == (True, view_shop.ROWS)
    words = found.refused("view", "rollback", name, "--to", "99", code=2)
    assert refusal(served, f"/views/{name}/rollback", 400, to=99) in words.lower()
    assert act(served, "/views/nowhere/rebuild").status == 404
    assert act(served, f"/views/{name}/rebuild", odd=True).status == 400


def test_a_snapshot_is_taken_and_one_that_is_over_is_not_paused(shop: tuple[Shop, Served]) -> None:
    _, served = shop
    taken = done(served, "/snapshots", tables=["public.spare"], where="id <= 5")["result"]
    assert (taken["status"], taken["rows"]) == ("complete", 5)
    (newest, *_) = read(served, "/snapshots")["snapshots"]
    assert (newest["id"], newest["status"], newest["rows"]) == (taken["id"], "complete", 5)
    words = refusal(served, f"/snapshots/{taken['id']}/pause", 409)
    assert words == f"snapshot {taken['id']} is complete"


def test_dead_letters_are_retried_and_discarded_and_all_of_it_is_written_down(
    shop: tuple[Shop, Served],
) -> None:
    found, served = shop
    name, long = found.name("kinds"), "a name that is too long"
    with psycopg.connect(found.store_dsn, autocommit=True) as conn:
        conn.execute(f'alter table "{name}@1" add constraint short check (length(name) < 20)')
    found.deployment.execute(f"update kind set name = '{long}' where id = 2")
    wait_until(lambda: read(served, "/dead-letters")["letters"], "its key to be parked")
    (letter,) = read(served, "/dead-letters")["letters"]
    assert (letter["view"], json.loads(letter["key"])) == (name, {"id": "2"})
    wait_until(
        lambda: "HW010" in {one["code"] for one in read(served, "/pipeline")["advice"]},
        "the picture to say what to do",
    )
    left = done(served, f"/dead-letters/{name}/retry", keys=[letter["name"]])["result"]
    assert left["left"] == 1
    assert act(served, f"/dead-letters/{name}/discard", reason="test").status == 400, "of what?"
    gone = done(served, f"/dead-letters/{name}/discard", all=True, reason="it is a test")
    assert gone["result"]["keys"] == 1
    assert read(served, "/dead-letters")["keys"] == 0
    lines = read(served, "/audit", limit="1000")["lines"]
    assert [(one["action"], one["outcome"]) for one in lines[:4]] == [
        ("dead-letters discard", "done"), ("dead-letters discard", "begun"),
        ("dead-letters retry", "done"), ("dead-letters retry", "begun"),
    ]  # fmt: skip
    assert lines[0]["arguments"] == {"keys": "all", "reason": "it is a test"}
    assert {one["who"] for one in lines} == {"local"}
    written = (found.deployment.home / ".headwater/serve/audit.jsonl").read_text()
    for secret in (long, letter["key"], "id <= 5"):
        assert secret not in written
