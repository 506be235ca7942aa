"""The whole path by roles that have no right beyond their part, on tables with excluded columns, by
TLS on each hop; passwords that change meanwhile, and what is left of them."""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes, token_hex

import psycopg
import pytest
from psycopg import errors

from cdc.config import load_config
from cdc.kafka.broker import Broker as Client
from stack.ports import HOST
from tests.support.commands.deployment import Deployment
from tests.support.commands.secured_shop import (
    FIRST,
    VIEWS,
    WEAK,
    Shop,
    port_of,
    settings_of,
)
from tests.support.servers.secured import (
    TABLES,
    Secrets,
    ask,
    broker,
    redis_user,
    roles,
    run_by_a_dba,
    set_redis_user,
)
from tests.support.servers.tls import fronts
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory, postgres: str, opensearch: str, redis_server: str
) -> Iterator[Shop]:
    """A DBA has run both scripts; nothing else was done."""
    home = tmp_path_factory.mktemp("shop")
    user = f"r{token_bytes(4).hex()}"
    held = Secrets(home / "secrets")
    held.home.mkdir(mode=0o700)
    logins: set[tuple[str, str]] = set()
    with (
        fronts(home, "db.headwater.test") as tls,
        roles(postgres, user, tls) as own,
        broker(
            home, tls, user, held.make("KAFKA_PASSWORD"), [f"{user}_{view}" for view in VIEWS]
        ) as servers,
        redis_user(redis_server, user, held.make("CACHE_PASSWORD")) as cache,
    ):
        logins.add((user, held.make("SEARCH_PASSWORD")))
        ports = {
            "search": tls.http(port_of(opensearch), logins),
            "cache": tls.stream(port_of(redis_server)),
        }
        for variable in ("SOURCE_PASSWORD", "STORE_PASSWORD", "S3_KEY", "S3_SECRET"):
            held.make(variable)
        held.make("WEBHOOK_SECRET", f"whsec_{base64.b64encode(token_bytes(24)).decode()}")
        dsn = own.dsn(own.source, own.capture, "${SOURCE_PASSWORD}")
        deployment = Deployment(home, user, dsn, servers.secured)
        deployment.environment = held.environment
        plain = Deployment(home, user, own.source, servers.open)
        extra = settings_of(own, held, user, ports)
        made = Shop(deployment, plain, own, held, servers, opensearch, cache, logins, user, extra)
        plain.execute(*TABLES)
        made.configure("customers", "orders")
        for role, variable, database, more in (
            (own.capture, "SOURCE_PASSWORD", own.source, ()),
            (own.writer, "STORE_PASSWORD", own.store, ("--store", "tables")),
        ):
            for _ in range(2):  # it can be run again
                run_by_a_dba(made.printed("--role", role, *more), database)
            ask(database, f"alter role {role} password '{held.now[variable]}'")
        yield made


def refused(dsn: str, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(errors.InsufficientPrivilege):
            ask(dsn, statement)


def test_the_roles_can_do_nothing_beyond_their_part(shop: Shop) -> None:
    roles, held = shop.roles, shop.secrets.now
    capture = roles.dsn(roles.source, roles.capture, held["SOURCE_PASSWORD"])
    refused(
        capture,
        "select ssn from app.customers",
        "select risk from app.customers",  # which tells it
        "select c from app.customers c",
        "select id from app.visits",  # which is not captured
        "update app.customers set name = 'x'",
        "create table app.own (id int)",
    )
    rows = ask(capture, "select label, ctid, xmin::text <> '' from app.customers where id = 1")
    assert rows == [("n1#", "(0,1)", True)]
    writer = roles.dsn(roles.store, roles.writer, held["STORE_PASSWORD"])
    refused(writer, "create schema other", "create table public.own (id int)")
    ask(writer, "create table reports.own (id int)", "drop table reports.own")


def test_each_step_runs_with_these_rights_and_by_tls(shop: Shop) -> None:
    shop.check()
    shop.done("init")
    with shop.running("capture"), shop.running("apply") as apply:
        shop.equal(*FIRST)
        roles = shop.roles
        shop.configure("customers", "orders", "visits")
        _, found = shop.deployment.check()
        (hint,) = [one["hint"] for one in found["error"] if one["check"] == "select"]
        columns = '"id", "customer", "ctid", "xmin"'
        assert f'GRANT SELECT ({columns}) ON "app"."visits" TO "{roles.capture}"' in hint
        run_by_a_dba(shop.printed("--role", roles.capture), roles.source)
        shop.done("table", "add", "app.visits")
        change(shop, 100)
        shop.equal(*VIEWS)

        change_passwords(shop)
        change(shop, 200)
        shop.equal(*VIEWS)

        shop.check()
        for view in VIEWS:
            said = json.loads(shop.done("verify", shop.view(view), "--json"))
            assert said["differences"] == [], said
        shop.done("snapshot", "start", "app.customers")
        shop.done("view", "rebuild", shop.view("people"))
        for verb in ("status", "lag", "health"):
            shop.said.append(shop.deployment.run(verb, "--json").stdout)
        shop.done("view", "list", "--json")
        shop.done("view", "show", shop.view("people"), "--json")
        shop.done("trace", "app.customers", "1", "--json")
        assert_no_secret(shop, processes(apply.pid) | spark_pages(shop))
    assert_no_secret(shop, left(shop) | {"printed": "\n".join(shop.said)})


def change(shop: Shop, number: int) -> None:
    ask(
        shop.roles.source,
        f"insert into app.customers (id, name, ssn) values ({number % 37}, 'new', 's{number}')"
        " on conflict (id) do update set name = excluded.name, ssn = excluded.ssn",
        f"update app.visits set customer = {number % 37} where id = 5",
        f"update app.orders set customer = {number % 37} where id = 3",
    )


def change_passwords(shop: Shop) -> None:
    """Of all that can be changed without a restart; who has signed in with the old one is sent
    away, or asked again."""
    held, own = shop.secrets, shop.roles
    for role, variable in ((own.capture, "SOURCE_PASSWORD"), (own.writer, "STORE_PASSWORD")):
        old, new = held.now[variable], token_hex(16)
        ask(own.source, f"alter role {role} password '{new}'")
        held.make(variable, new)
        assert own.end_sessions(role)
        with pytest.raises(psycopg.OperationalError):
            ask(own.dsn(own.source, role, old))
    new = token_hex(16)
    set_redis_user(shop.cache, shop.user, new)
    held.make("CACHE_PASSWORD", new)
    shop.cache.execute_command("CLIENT", "KILL", "USER", shop.user)
    new = token_hex(16)
    shop.logins.add((shop.user, new))
    held.make("SEARCH_PASSWORD", new)
    shop.logins.remove((shop.user, held.past[-1]))


def processes(apply: int) -> dict[str, str]:
    """Arguments of all processes of this machine, and the environment of what apply has started."""
    found, children = {}, {apply}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        with suppress(OSError):
            found[f"arguments of {folder.name}"] = (folder / "cmdline").read_text(errors="replace")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in children:
                children.add(int(folder.name))
                environ = (folder / "environ").read_text(errors="replace")
                found[f"environment of {folder.name}"] = environ
    names = [text for name, text in found.items() if int(name.split()[-1]) in children]
    assert any("java" in text for text in names), "its JVM was not looked at"
    return found


def spark_pages(shop: Shop) -> dict[str, str]:
    config = load_config(shop.deployment.config, {**os.environ, **shop.deployment.environment})
    base = f"http://{HOST}:{config.apply.spark['spark.ui.port']}"
    with urllib.request.urlopen(f"{base}/api/v1/applications") as answer:
        (application,) = json.load(answer)
    api = f"/api/v1/applications/{application['id']}"
    found = {}
    for path in ("/environment/", "/SQL/", "/jobs/", "/StreamingQuery/", f"{api}/environment",
                 f"{api}/sql?details=true&planDescription=true"):  # fmt: skip
        with urllib.request.urlopen(base + path) as answer:
            found[path] = answer.read().decode()
    assert "spark.hadoop.fs.s3a.secret.key" in found[f"{api}/environment"]
    return found


def left(shop: Shop) -> dict[str, str]:
    """All files below the home but the secrets themselves, all topics, and what objects show."""
    home, held = shop.deployment.home, shop.secrets.home
    found = {}
    for path in home.rglob("*"):
        if path.is_file() and held not in path.parents:
            found[str(path)] = path.read_bytes().decode("latin-1")
    assert any("eventlog" in name or "local-" in name for name in found), "no event log"
    with Client(shop.servers.open) as client:
        topics = client.topics(f"{shop.user}.")
        ends = client.end_offsets(topics)
        for topic in topics:
            for partition, end in ends[topic].items():
                records = list(client.read(topic, partition, 0, end))
                found[f"{topic} {partition}"] = repr(records)
    config = load_config(shop.deployment.config, {**os.environ, **shop.deployment.environment})
    found["configuration"] = repr([config, config.kafka, config.apply, *config.stores.values()])
    return found


def assert_no_secret(shop: Shop, found: dict[str, str]) -> None:
    """Says where one is, and not what."""
    named = dict(shop.secrets.now)
    named |= {f"a former one, {n}": value for n, value in enumerate(shop.secrets.past)}
    seen = [
        f"{name} in {place}"
        for place, text in found.items()
        for name, value in named.items()
        if value.removeprefix("whsec_") in text
    ]
    assert seen == []


def test_what_is_refused_tells_no_password(shop: Shop) -> None:
    with pytest.raises(AssertionError, match="KAFKA_PASSWORD in planted"):
        assert_no_secret(shop, {"planted": f"x{shop.secrets.now['KAFKA_PASSWORD']}x"})
    for variable in ("SOURCE_PASSWORD", "STORE_PASSWORD", "CACHE_PASSWORD", "SEARCH_PASSWORD",
                     "KAFKA_PASSWORD"):  # fmt: skip
        right = shop.secrets.now[variable]
        shop.secrets.make(variable)
        ran = shop.deployment.run("check")
        assert ran.returncode == 1, variable
        assert_no_secret(shop, {variable: ran.stdout + ran.stderr})
        shop.secrets.make(variable, right)


def test_weaker_tls_is_warned_of(shop: Shop) -> None:
    """A server whose address no rule knows for this machine's; the address itself would be."""
    weaker = f"{shop.deployment.dsn} sslmode=require hostaddr='' host=127.1"
    home = shop.deployment.home / "weaker"
    home.mkdir()
    _, found = replace(shop.deployment, home=home, dsn=weaker).check()
    warned = [one["message"].partition(",")[0] for one in found["warning"] if one["check"] in WEAK]
    assert warned == ["source.dsn: sslmode is require"]


def test_the_role_of_capture_removes_what_it_made(shop: Shop) -> None:
    shop.done("uninstall", "--yes")
    name = f"'headwater_{shop.user}'"
    assert ask(
        shop.roles.source,
        f"select (select count(*) from pg_replication_slots where slot_name = {name}),"
        f" (select count(*) from pg_publication where pubname = {name}),"
        " (select count(*) from pg_namespace where nspname = 'headwater')",
    ) == [(0, 0, 0)]
    with Client(shop.servers.open) as client:
        wait_until(lambda: client.topics(f"{shop.user}.") == [], "all topics to be gone")
