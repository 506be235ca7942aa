"""What the server shows of a pipeline that runs, and what it has done for an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdc.lag.states import GOOD
from tests.support.commands import view_shop
from tests.support.commands.view_shop import Shop
from tests.support.serve.served import Served
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
        served = Served(found.deployment)
        with found.applied(), served.running():
            found.equal("items", view_shop.ITEMS)
            yield found, served


def read(served: Served, path: str, **query: str) -> Any:
    answer = served.ask("GET", path, query=query)
    assert answer.status == 200, answer.body
    return answer.document


def test_the_picture_is_green_when_all_is_applied_and_each_page_has_its_figures(
    shop: tuple[Shop, Served],
) -> None:
    found, served = shop
    name = found.name("items")
    wait_until(lambda: read(served, "/pipeline")["state"] in GOOD, "the pipeline to be green")
    picture = read(served, "/pipeline")
    assert [(one["begin"], one["end"]) for one in picture["arrows"]] == [
        ("source", "capture"), ("capture", "topics"), ("topics", "view"), ("view", "store"),
    ]  # fmt: skip
    assert all(one["lag_s"] is not None for one in picture["arrows"])
    (line,) = picture["views"]
    assert (line["view"], line["kind"], line["parked_keys"]) == (name, "redis", 0)
    source = read(served, "/source")
    slot = source["slot"]
    assert (slot["active"], slot["wal_status"]) == (True, "reserved")
    assert slot["restart_lsn"]
    wait_until(lambda: read(served, "/source")["checks"], "the first check")
    checks = read(served, "/source")["checks"]
    assert "slot" in {one["check"] for one in checks}
    topics = {one["table"]: one for one in read(served, "/topics")["topics"]}
    assert topics["public.item"]["records"] >= view_shop.ROWS
    assert topics["public.item"]["views"] == [name]
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
    assert [one["applied"] for one in found["views"]] == [True]


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
