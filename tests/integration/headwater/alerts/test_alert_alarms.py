"""What an operator is told of alerts on rows, without Prometheus: by apply while no server is left,
else by the server. Each alarm has to hold for a minute or two, so `make exhaustive` runs it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import alarmed_shop, view_shop
from tests.support.serve.receiver import receiving, secret_file
from tests.support.serve.served import Served
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

HELD_S = 400.0
"""Until an alarm has held, is sent, and is over, on a busy machine."""


@pytest.mark.exhaustive
def test_an_operator_is_told_that_nobody_sends_an_alert_and_that_its_messages_wait(
    tmp_path: Path, postgres: str, kafka: str, redis_server: str, lender: Lender
) -> None:
    told: list[dict[str, Any]] = []

    def is_told(code: str, status: str, process: str) -> None:
        wanted = code, status, process
        wait_until(lambda: wanted in [of(one) for one in told], f"to be told {wanted}", HELD_S)

    with ExitStack() as running:
        alarms = running.enter_context(alarmed_shop.receiving(told))
        receiver = running.enter_context(receiving())
        shop = running.enter_context(
            view_shop.opened(tmp_path, postgres, kafka, redis_server, lender)
        )
        signed = tmp_path / "alarms.secret"
        signed.write_text(alarmed_shop.SECRET, encoding="utf-8")
        signed.chmod(0o600)
        shop.beside = (
            f'[alerts]\nlag_s = 1\nwebhook = "{alarms}"\nsecret_file = "{signed}"\n'
            f'[alerts.rows.moved]\ntable = "public.item"\nwhen = "op = \'c\'"\n'
            f'webhook = "{receiver.url}/"\nsecret_file = "{secret_file(tmp_path)}"\n'
        )
        shop.declare("items", view_shop.ITEMS)
        running.enter_context(shop.applied())
        is_told("HW017", "firing", "apply")
        served = Served(shop.deployment)
        with served.running():
            is_told("HW017", "resolved", "apply")
            receiver.status = lambda *_: 500
            shop.deployment.execute("insert into item values (901, 1, 'new', 1)")
            is_told("HW018", "firing", "serve")
            receiver.status = lambda *_: 204
            is_told("HW018", "resolved", "serve")
    assert [one["key"] for one in receiver.taken("/")] == [{"id": 901}]
    assert ("HW018", "firing", "apply") not in [of(one) for one in told], "the server tells it"


def of(message: dict[str, Any]) -> tuple[str, str, str]:
    data = message["data"]
    return data["code"], data["status"], data["process"]
