"""``headwater apply`` as a process: its end, its death, its exit code, what its log has.

One capture runs for all tests; each has views of its own, and they share the state database. Where
signals and Spark's log are tested, apply has a JVM of its own.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from cdc.kafka.broker import Broker
from cdc.topics import table_topic, view_group
from stack.ports import free_port
from tests.support.commands.deployment import Deployment
from tests.support.commands.scraping import probe
from tests.support.servers.forked_command import Child
from tests.support.servers.group_member import member_of
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database
from tests.support.servers.proxy import Proxy
from tests.support.waiting import wait_until

BODIES = "select id, body from {}"
NUMBERS = "select id, body::int as number from {}"
SECRET = "confidential"


@dataclass(slots=True)
class Setting:
    """The table of a test, which is called like it, and what its commands have said."""

    deployment: Deployment
    redis_url: str
    table: str
    said_before: int = 0

    def name(self, view: str) -> str:
        return f"{self.deployment.name}_{self.table}_{view}"

    def declare(self, dlq_limit: int = 100, **views: str) -> None:
        declared = "\n".join(
            f'[views.{self.name(name)}]\nstore = "cache"\nkey = ["id"]\n'
            f'sql = "{sql.format(self.table)}"'
            for name, sql in views.items()
        )
        self.deployment.extra = (
            f'[stores.cache]\nkind = "redis"\nurl = "{self.redis_url}"\n'
            f'[apply]\nstate = "{self.deployment.home / "state"}"\ndlq_limit = {dlq_limit}\n'
            f"{declared}\n"
        )

    def execute(self, *statements: str) -> None:
        """Each names the table as ``t``."""
        self.deployment.execute(*(one.replace(" t ", f" {self.table} ") for one in statements))

    @contextmanager
    def applied(self, *arguments: str) -> Iterator[Child]:
        with self.deployment.running("apply", *arguments) as process:
            yield process

    def output(self) -> str:
        return self.deployment.log("apply")[self.said_before :]

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.output().splitlines() if f'"{event}"' in line]
        return [json.loads(line) for line in lines if line.endswith("}")]

    def says_no_more(self) -> None:
        """A value that stops a view, or is parked, is in no log, and neither is a stack."""
        said = self.output()
        assert SECRET not in said
        lines = said.splitlines()
        assert not [line for line in lines if "org.apache.spark" in line or "\tat " in line], said

    def shown(self, view: str) -> dict[int, Any]:
        client: Any = redis.Redis.from_url(self.redis_url, decode_responses=True)
        rows = client.get(f"{self.name(view)}@live")
        found = [client.hget(key, "doc") for key in client.scan_iter(f"{rows}:*", 5_000)]
        documents = [json.loads(one) for one in found if one is not None]
        return {one.pop("id"): one.popitem()[1] for one in documents}

    def held(self) -> dict[int, Any]:
        with psycopg.connect(self.deployment.dsn) as conn:
            return dict(conn.execute(BODIES.format(self.table).encode()).fetchall())

    def reached(self, view: str) -> None:
        done = self.deployment.run("wait", self.name(view), "--timeout", "120")
        assert done.returncode == 0, done.stderr + self.output()

    def group_is_at_the_end(self, view: str) -> bool:
        topic = table_topic(self.deployment.name, "public", self.table)
        with Broker(self.deployment.bootstrap) as broker:
            ends = broker.end_offsets([topic])
            return broker.committed(view_group(self.name(view)), [topic]) == ends


@pytest.fixture(scope="module")
def deployment(
    tmp_path_factory: pytest.TempPathFactory, postgres: str, kafka: str
) -> Iterator[Deployment]:
    home: Path = tmp_path_factory.mktemp("apply")
    with ExitStack() as stack:
        source = stack.enter_context(fresh_database(postgres))
        made = Deployment(home, f"t{os.urandom(5).hex()}", source, kafka)
        for name in ("killed", "grouped", "failing", "parking", "emptied", "waiting"):
            made.execute(f"create table {name} (id int primary key, body text)")
        made.init()
        stack.enter_context(made.running("capture"))
        (home / "apply.log").touch()
        yield made


@pytest.fixture
def of(deployment: Deployment, redis_server: str) -> Callable[[str], Setting]:
    return lambda table: Setting(deployment, redis_server, table, len(deployment.log("apply")))


@pytest.fixture
def lent(deployment: Deployment, lender: Lender) -> Iterator[None]:
    """The JVM that commands have."""
    deployment.jvm = lender
    yield
    deployment.jvm = None


def test_killed_and_started_again_it_goes_on_and_sigterm_ends_it(
    of: Callable[[str], Setting],
) -> None:
    setting = of("killed")
    setting.declare(good=BODIES)
    setting.execute("insert into t select i, 'first' from generate_series(1, 199) i")
    with setting.applied() as first:
        wait_until(lambda: setting.logged("view_built"), "the view")
        setting.execute("update t set body = 'second' where id < 100")
        first.kill()
        first.wait()
    setting.execute("update t set body = 'third' where id < 50", "delete from t where id > 190")
    with setting.applied() as second:
        setting.reached("good")
        assert setting.shown("good") == setting.held()
        busy = setting.deployment.run("apply", "--available-now")
        assert busy.returncode == 1, busy.stderr
        assert f"is in use by pid {second.pid} on" in busy.stderr
        os.killpg(second.pid, signal.SIGTERM)  # as a service manager sends it: to Java too
        assert second.wait(120) == 0, setting.output()
    assert len(setting.logged("view_built")) == 1, "it was built anew"
    assert setting.shown("good") == setting.held()
    assert setting.group_is_at_the_end("good")


@pytest.mark.usefixtures("lent")
def test_a_consumer_in_a_views_group_keeps_nothing_from_any_view(
    of: Callable[[str], Setting],
) -> None:
    """Also where it was there before the view."""
    setting = of("grouped")
    setting.declare(good=BODIES, other=BODIES)
    topic = table_topic(setting.deployment.name, "public", setting.table)
    group = view_group(setting.name("good"))
    with (
        member_of(group, topic, setting.deployment.bootstrap) as joined,
        setting.applied() as process,
    ):
        wait_until(lambda: len(setting.logged("view_built")) == 2, "the views")
        setting.execute("insert into t values (1, 'a')")
        setting.reached("other")
        wait_until(lambda: setting.shown("good") == {1: "a"}, "the row")
        (told,) = setting.logged("offsets_not_committed")
        assert told["group"] == group
        joined.close()
        setting.reached("good")
        assert process.poll() is None
    assert setting.group_is_at_the_end("good")


@pytest.mark.usefixtures("lent")
def test_failing_views_are_a_line_each_and_exit_code_1_and_others_are_applied(
    of: Callable[[str], Setting],
) -> None:
    setting = of("failing")
    setting.declare(
        dlq_limit=0,
        good=BODIES,
        bad="select id, colour from {}",
        gone="select * from nosuch",
        strict=NUMBERS,
    )
    setting.execute(f"insert into t values (1, '{SECRET}')")
    done = setting.deployment.run("apply", "--available-now", "--json")
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    said = ("colour", "nosuch", "apply.dlq_limit is 0")
    assert len(errors) == len(said), done.stderr
    for fault in said:
        assert len([line for line in errors if fault in line]) == 1, done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr
    assert setting.shown("good") == {1: SECRET}
    assert setting.group_is_at_the_end("good")


def test_a_row_that_cannot_be_made_is_told_and_parked_and_stops_no_view(
    of: Callable[[str], Setting],
) -> None:
    setting = of("parking")
    setting.declare(1, good=BODIES, strict=NUMBERS)
    setting.execute("insert into t values (1, '16')")
    with setting.applied():
        wait_until(lambda: len(setting.logged("view_built")) == 2, "the views")
        setting.execute(f"insert into t values (2, '{SECRET}'), (3, '17')")
        setting.reached("good")
        (parked,) = wait_until(lambda: setting.logged("keys_parked"), "the key to be parked")
        assert (parked["view"], parked["keys"]) == (setting.name("strict"), 1)
        assert "data error 22P02" in parked["cause"]
        wait_until(lambda: setting.shown("strict") == {1: 16, 3: 17}, "the others")
        assert setting.shown("good") == setting.held()
    setting.says_no_more()


@pytest.mark.usefixtures("lent")
def test_a_store_that_was_emptied_is_told_and_not_filled_from_the_middle(
    of: Callable[[str], Setting],
) -> None:
    setting = of("emptied")
    setting.declare(good=BODIES)
    setting.execute("insert into t values (1, 'a'), (2, 'b')")
    done = setting.deployment.run("apply", "--available-now")
    assert done.returncode == 0, done.stderr
    client: Any = redis.Redis.from_url(setting.redis_url)
    client.delete(*client.scan_iter(f"*{setting.name('good')}*"))
    setting.execute("insert into t values (3, 'c')")
    lost = "store cache no longer holds the changes that were applied to it, or was replaced"
    for verb in ("apply", "apply", "verify"):
        arguments = ["--available-now"] if verb == "apply" else [setting.name("good")]
        done = setting.deployment.run(verb, *arguments)
        assert done.returncode == 1, done.stdout
        assert lost in done.stderr
        assert not [*client.scan_iter(f"*{setting.name('good')}*")], "made anew, and empty"
    done = setting.deployment.run("view", "rebuild", setting.name("good"))
    assert done.returncode == 0, done.stderr
    assert setting.shown("good") == setting.held()


@pytest.mark.usefixtures("lent")
@pytest.mark.parametrize("server", ["PostgreSQL", "Kafka"])
def test_an_apply_that_starts_before_a_server_waits_for_it(
    of: Callable[[str], Setting], postgres: str, kafka: str, server: str
) -> None:
    setting, port, metrics = of("waiting"), free_port(set()), free_port(set())
    target = urlsplit({"PostgreSQL": postgres, "Kafka": f"//{kafka}"}[server]).port
    assert target is not None
    setting.declare(good=BODIES)
    deployment = setting.deployment
    away = replace(deployment, home=deployment.home / server)
    away.home.mkdir()
    if server == "PostgreSQL":
        away.dsn = away.dsn.replace(f":{target}/", f":{port}/")
    else:
        away.bootstrap = f"127.0.0.1:{port}"
    declared = away.extra
    away.extra = declared.replace("[apply]", "[apply]\nretry_s = 3")
    began = time.monotonic()
    refused = away.run("apply", "--json")
    assert (refused.returncode, time.monotonic() - began > 3) == (1, True), refused.stderr
    assert refused.stderr.count("server_waited_for") >= 2
    assert away.run("apply", "--available-now", "--json").stderr.count("server_waited_for") == 0
    away.extra = f"{declared}[metrics]\napply = {metrics}\n"
    with away.running("apply", "--json") as process:
        wait_until(lambda: "server_waited_for" in away.log("apply"), "apply to find nobody there")
        assert probe(metrics, "livez")[0] == HTTPStatus.OK
        status, told = probe(metrics, "readyz")
        assert (status, server in told) == (HTTPStatus.SERVICE_UNAVAILABLE, True), told
        with closing(Proxy(port, target)):
            setting.execute(f"insert into t values ({len(server)}, 'x')")
            wait_until(lambda: setting.shown("good") == setting.held(), "the row")
        process.terminate()
        assert process.wait(120) == 0, away.log("apply")


def test_an_unknown_view_is_a_usage_error(deployment: Deployment) -> None:
    done = deployment.run("apply", "nosuch")
    assert done.returncode == 2
    assert "no view 'nosuch'" in done.stderr
