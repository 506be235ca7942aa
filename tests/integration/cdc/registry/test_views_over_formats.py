"""Views over topics whose schemas are in a registry: equal to the source through a kill of apply,
tables that change and a registry that is away."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cdc.lsn import format_lsn
from stack.ports import free_port
from stack.schema_registry import SchemaRegistry as Server
from stack.schema_registry import schema_registry
from tests.integration.cdc.events.test_views_over_forms import CHANGES, TABLES, declare
from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.proxy import Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server
PRESET = 'preset = "debezium"\nskipped.operations = "none"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.mark.parametrize(
    "format",
    [
        "avro",
        pytest.param("json-schema", marks=pytest.mark.exhaustive),
        pytest.param("protobuf", marks=pytest.mark.exhaustive),
    ],
)
def test_views_over_topics_with_schemas_in_a_registry_are_equal_through_kill_and_outage(
    deployment: Deployment, lender: Lender, redis_server: str, server: Server, format: str
) -> None:
    shop, port = deployment, free_port(set())
    between = Proxy(port, server.port)
    url = server.url.replace(f":{server.port}", f":{port}")
    shop.jvm = lender
    shop.execute(*TABLES)
    events = f'format = "{format}"\n{PRESET}[events.registry]\nurl = "{url}"\n'
    declare(shop, redis_server, events)
    shop.init()
    views = f"{shop.name}_joined", f"{shop.name}_readings"
    with shop.running("capture") as capture:
        shop.captured(capture)
        with shop.running("apply", "--json") as apply:
            done(shop, "wait", *views, "--timeout", "300")
            before = format_lsn(shop.wal_end())
            shop.execute(*CHANGES[:5])
            shop.captured(capture)
            apply.kill()
        shop.execute(*CHANGES[5:])
        shop.captured(capture)
        lag = json.loads(shop.run("lag", "--json").stdout)["views"]
        assert sum(one["behind_records"] for one in lag) > 0
        done(shop, "replay", views[1], "--from", before)
        between.close()
        with shop.running("apply", "--json"):
            away = f"the schema registry at {url} does not answer"
            wait_until(lambda: away in shop.log("apply"), "apply to say what it waits for")
            between = Proxy(port, server.port)
            done(shop, "wait", *views, "--timeout", "120")
            for view in views:
                report = json.loads(done(shop, "verify", view, "--json"))
                assert report["equal"], report
                assert report["source_rows"] > 40
            found = json.loads(done(shop, "trace", "customer", "1999-12-31", "--json"))
            assert [one["op"] for one in found["changes"]] == ["insert"]
            shop.execute("truncate reading", "truncate orders")
            shop.captured(capture)
            done(shop, "wait", *views, "--timeout", "120")
            for view in views:
                report = json.loads(done(shop, "verify", view, "--json"))
                assert (report["equal"], report["view_rows"]) == (True, 0), report
    between.close()
