"""Alerts on rows over real servers, to a receiver that fails at will."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from tests.support.commands.deployment import Deployment, Event, done
from tests.support.serve.receiver import Position, Receiver, position, receiving, secret_file
from tests.support.serve.served import Served
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

RISEN: Final = "after.total > 1000 and (before.total is null or before.total <= 1000)"
KEYS: Final = 12


def settings(receiver: Receiver, secret: Path) -> str:
    return f"""
partitions = 3
[alerts]
secret_file = "{secret}"
[alerts.rows.big]
table = "public.orders"
when = "{RISEN}"
webhook = "{receiver.url}/big"
columns = ["total", "mail"]
[alerts.rows.marked]
table = "public.orders"
when = "after.note = 'marked' and op in ('c', 'u')"
webhook = "{receiver.url}/marked"
"""


@dataclass(slots=True)
class Shop:
    deployment: Deployment
    served: Served
    receiver: Receiver
    other: Served


@pytest.fixture(scope="module")
def shop(postgres: str, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A captured table, and two servers that are not started yet."""
    with fresh_database(postgres) as source, receiving() as receiver:
        home = tmp_path_factory.mktemp("alerted")
        secret = secret_file(home)
        deployment = Deployment(home, f"t{random.randbytes(5).hex()}", source, kafka)
        deployment.settings = 'columns = { "public.orders" = { mail = "mask" } }\n'
        deployment.extra = settings(receiver, secret)
        deployment.execute(
            "create table orders (id int primary key, total numeric, note text, mail text)",
            "alter table orders replica identity full",
            "create table plain (id int primary key, total numeric)",
            f"insert into orders select i, 5000, 'quiet' from generate_series(1, {KEYS}) i",
        )
        deployment.init()
        (home / "other").mkdir()
        other = replace(deployment, home=home / "other")
        with deployment.running("capture") as capture:
            deployment.captured(capture)
            yield Shop(deployment, Served(deployment), receiver, Served(other))


def expected(events: list[Event]) -> dict[int, list[Position]]:
    """By key, the changes that the condition means, by other words than its own."""
    found: dict[int, list[Position]] = defaultdict(list)
    for event in events:
        if event.value is None or event.value["op"] not in ("c", "u"):
            continue
        assert event.key is not None
        before, after = event.value["before"], event.value["after"]
        was_large = before is not None and Decimal(before["total"]) > 1000
        if Decimal(after["total"]) > 1000 and not was_large:
            found[event.key["id"]].append(event.position)
    return found


def write(shop: Shop, rounds: int) -> None:
    """Totals rise above the limit, move beyond it, and fall; rows come and go."""
    with psycopg.connect(shop.deployment.dsn, autocommit=True) as conn:
        for number in range(rounds):
            conn.execute("update orders set total = 900 where id %% 3 = %s", [number % 3])
            conn.execute("update orders set total = total + 600, mail = 'a@b' where id > 2")
            conn.execute("delete from orders where id = %s", [number % KEYS + 1])
            conn.execute(
                "insert into orders values (%s, %s)", [number % KEYS + 1, 700 + 400 * (number % 2)]
            )


def running(served: Served) -> None:
    wait_until(
        lambda: served.metric('headwater_row_alert_running{alert="big"') == 1, "the alert to run"
    )
    wait_until(
        lambda: served.metric('headwater_row_alert_running{alert="marked"') == 1, "the other one"
    )


def all_taken(shop: Shop) -> dict[int, list[Position]]:
    shop.deployment.captured()
    wanted = expected(shop.deployment.events("orders"))
    everything = {at for of_key in wanted.values() for at in of_key}
    wait_until(
        lambda: everything <= {position(one) for one in shop.receiver.taken("/big")},
        "all messages",
    )
    return wanted


def test_each_change_that_is_meant_is_told_in_order_through_kill_9_and_a_second_server(
    shop: Shop,
) -> None:
    """Of rows of the snapshot nothing is told, nor of changes that do not meet the condition."""
    receiver = shop.receiver
    refused = set[Position]()

    def answered(path: str, data: dict[str, Any], count: int) -> int:
        """The first two changes of a key are taken when they come again."""
        if path == "/big" and data["key"]["id"] == 4 and count == 1 and len(refused) < 2:
            refused.add(position(data))
            return 500
        return 204

    receiver.status = answered
    with shop.served.running() as process:
        running(shop.served)
        write(shop, 6)
        wait_until(lambda: len(receiver.taken("/big")) >= 5, "some messages")
        with shop.other.running():
            running(shop.other)
            write(shop, 6)
            wait_until(lambda: len(receiver.taken("/big")) >= 12, "more messages")
            process.kill()
            write(shop, 6)
            wanted = all_taken(shop)
    assert receiver.faults == []
    told = [(data, status) for path, data, status in receiver.requests if path == "/big"]
    assert {position(data) for data, _ in told} == {at for one in wanted.values() for at in one}
    assert {len(ids) for ids in receiver.ids.values()} == {1}
    mails = {data["after"]["mail"] for data, _ in told}
    assert len(mails) == 2, "masked, or null"
    assert "a@b" not in mails
    taken: set[Position] = set()
    for data, status in told:
        of_key = wanted[data["key"]["id"]]
        before = of_key[: of_key.index(position(data))]
        assert taken.issuperset(before), f"{data} was sent before one of its key"
        if status == 204:
            taken.add(position(data))


def to_do(served: Served) -> dict[str, str]:
    """The codes of alarms by which the server says what to do, and what that is."""
    return {one["code"]: one["hint"] for one in served.get("/pipeline").document["advice"]}


def blocked(served: Served) -> set[str]:
    alerts = served.get("/pipeline").document["row_alerts"]
    return {one["alert"] for one in alerts if one["state"] == "blocked"}


def test_a_message_that_is_not_taken_is_a_dead_letter_that_is_retried_with_its_id(
    shop: Shop,
) -> None:
    receiver, deployment = shop.receiver, shop.deployment
    receiver.status = lambda path, *_: 410 if path == "/marked" else 204
    with shop.served.running():
        running(shop.served)
        deployment.execute("insert into orders values (901, 1, 'marked'), (902, 1, 'quiet')")

        def letters() -> Any:
            return json.loads(done(deployment, "dead-letters", "list", "alerts.marked", "--json"))

        (letter,) = wait_until(letters, "the dead letter")
        assert (letter["view"], letter["key"]) == ("alerts.marked", '{"id":901}')
        assert letter["cause"] == "answered 410"
        assert shop.served.metric('headwater_row_alert_dead_letters_total{alert="marked"') == 1
        told = {
            one["alert"]: one for one in json.loads(done(deployment, "lag", "--json"))["alerts"]
        }
        assert told["marked"]["dead_letters"] == 1
        assert told["big"]["last_delivered_s"] is not None, "of a server that was killed since"
        assert {one["state"] for one in told.values()}.isdisjoint({"blocked", "no data"})
        wait_until(lambda: "HW018" in to_do(shop.served), "what to do about it")
        assert "HW017" not in to_do(shop.served)
    shown = json.loads(done(deployment, "dead-letters", "show", letter["id"], "--json"))
    assert shown["value"]["data"]["key"] == {"id": 901}
    refused = deployment.run("dead-letters", "retry", "alerts.marked")
    assert refused.returncode == 1
    assert "answered 410" in refused.stdout, refused.stderr
    receiver.status = lambda *_: 204
    assert "1 event of 1 key delivered" in done(
        deployment, "dead-letters", "retry", "alerts.marked"
    )
    (taken,) = (one for one in receiver.taken("/marked") if one["key"] == {"id": 901})
    assert receiver.ids[f"/marked {position(taken)}"] == {letter["id"]}
    assert letters() == []


WRONG: Final = {
    "syntax": ("public.orders", "after.total >", "at character 14: a literal is missing"),
    "column": ("public.orders", "after.gone = 1", "no column gone"),
    "type": ("public.orders", "after.note > 'a'", "order is that of a collation"),
    "old": ("public.plain", "before.total > 1", "REPLICA IDENTITY FULL"),
    "treated": ("public.orders", "after.mail = 'x'", "treated"),
    "table": ("public.nowhere", "after.id = 1", "not captured"),
}


def test_what_does_not_fit_is_told_by_check_and_only_what_does_not_parse_refuses_the_server(
    shop: Shop,
) -> None:
    deployment = replace(shop.deployment, extra=shop.deployment.extra)
    right = deployment.extra
    more = "".join(
        f'[alerts.rows.{name}]\ntable = "{table}"\nwhen = "{when}"\n'
        'webhook = "http://127.0.0.1:9/"\n'
        for name, (table, when, _) in WRONG.items()
    )
    deployment.extra = right.partition("[serve]")[0] + more
    code, found = deployment.check()
    errors = {one["check"]: one["message"] for one in found["error"]}
    assert code == 1
    for name, (*_, said) in WRONG.items():
        assert said in errors[f"alert {name}"]
    fine = {one["check"]: one["message"] for one in found["ok"]}
    assert fine["alert big"].endswith("with the key and total, mail; mail as published (mask)")
    refused = deployment.run("serve", timeout_s=60)
    assert (refused.returncode, "alerts.rows.syntax" in refused.stderr) == (2, True)
    deployment.extra = deployment.extra.replace('after.total >"', 'after.gone > 1"')
    deployment.write()
    served = Served(deployment)
    with served.running():
        running(served)
        assert served.metric('headwater_row_alert_running{alert="old"') == 0
        wait_until(
            lambda: blocked(served) == {*WRONG}, "alerts that do not fit to count as blocked"
        )
        assert to_do(served)["HW017"].startswith("Start `headwater serve`")
    deployment.extra = right
    deployment.write()
