"""The OpenAPI document is true: requests that schemathesis draws from it have the answers that it
declares, and none is a fault of ours."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS

from tests.support.commands.deployment import Deployment
from tests.support.serve.served import Served
from tests.support.servers.postgres import fresh_database

pytestmark = pytest.mark.exhaustive
WANTED = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")


@pytest.fixture(scope="module")
def served(postgres: str, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with fresh_database(postgres) as source:
        home = tmp_path_factory.mktemp("fuzzed")
        deployment = Deployment(home, f"t{random.randbytes(5).hex()}", source, kafka)
        deployment.execute(
            "create table item (id int primary key, name text)", "insert into item values (1, 'x')"
        )
        deployment.init()
        made = Served(deployment)
        with made.running():
            yield made


def test_each_route_answers_as_it_is_described(served: Served) -> None:
    described = schemathesis.openapi.from_url(f"{served.base}/openapi.json")
    checks = [CHECKS.get_one(name) for name in WANTED]
    count = 0

    def asked(case: Any) -> None:
        if case.path.startswith("/changes/"):
            case.path_parameters["table"] = random.Random(str(case.query)).choice(
                ["item", "public.item", case.path_parameters["table"]]
            )
            case.query["wait"] = "0"  # a stream has no end
        response = case.call(base_url=served.base, timeout=60)
        assert response.status_code != 500
        case.validate_response(response, checks=checks)

    for found in described.get_all_operations():
        operation = found.ok()
        drawn = given(case=operation.as_strategy())
        is_action = operation.method == "post" and operation.path.startswith("/snapshots")
        limited = settings(
            max_examples=4 if is_action else 40,  # each is a process
            suppress_health_check=list(HealthCheck),
            deadline=None,
        )
        limited(drawn(asked))()
        count += 1
    assert count >= 10
