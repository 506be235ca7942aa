"""A deployment by roles without a right beyond their part, and by TLS on each hop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

from stack.ports import HOST, free_port
from tests.support.commands.deployment import Deployment, done
from tests.support.servers.secured import (
    Broker,
    Roles,
    Secrets,
    ask,
)
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).parents[3]
EXCLUDED: Final = {"customers": "ssn", "orders": "card", "visits": "ip"}
VIEWS: Final = {
    "people": ("tables", "select c.id, c.name, c.label, count(v.id) as visits from app.customers c"
               " left join app.visits v on v.customer = c.id group by c.id"),
    "sales": ("search", "select id, customer from app.orders"),
    "names": ("cache", "select id, name, label from app.customers"),
}  # fmt: skip
"""The second one is of a table without a mirror."""
FIRST: Final = ("sales", "names")
"""What can be declared before the third table is captured."""
WEAK: Final = ("TLS", "configuration", "metrics")
"""Checks that warn of what others can read."""


@dataclass(slots=True)
class Shop:
    """``deployment`` is what users have, ``open`` the same for whoever may do everything."""

    deployment: Deployment
    open: Deployment
    roles: Roles
    secrets: Secrets
    servers: Broker
    search: str
    cache: Any
    logins: set[tuple[str, str]]
    user: str
    extra: str
    said: list[str] = field(default_factory=list)
    """What commands have printed."""

    def view(self, name: str) -> str:
        return f"{self.user}_{name}"

    def configure(self, *tables: str) -> None:
        self.deployment.tables = tuple(f"app.{table}" for table in tables)
        excluded = ", ".join(f'"app.{at}" = {{ {EXCLUDED[at]} = "exclude" }}' for at in tables)
        self.deployment.settings = f"columns = {{ {excluded} }}\n"
        views = VIEWS if "visits" in tables else FIRST
        self.deployment.extra = self.extra + "".join(
            f'[views.{self.view(view)}]\nstore = "{VIEWS[view][0]}"\nkey = ["id"]\n'
            f'sql = """{VIEWS[view][1]}"""\n'
            for view in views
        )
        self.deployment.write()

    def done(self, *arguments: str) -> str:
        ran = self.deployment.run(*arguments)
        self.said += [ran.stdout, ran.stderr]
        assert ran.returncode == 0, ran.stdout + ran.stderr + self.log("apply")[-3000:]
        return ran.stdout

    def check(self) -> None:
        """All is well, and nothing is weaker than it should be."""
        _, found = self.deployment.check()
        self.said.append(repr(found))
        assert found["error"] == []
        weak = [one["message"] for one in found["warning"] if one["check"] in WEAK]
        assert weak == []

    def printed(self, *arguments: str) -> str:
        """What `init --print-sql` prints to a role without a right."""
        nobody = self.roles.nobody
        dsn = self.roles.dsn(self.roles.source, nobody, nobody)
        home = self.deployment.home / "nobody"
        home.mkdir(exist_ok=True)
        return done(replace(self.deployment, home=home, dsn=dsn), "init", "--print-sql", *arguments)

    def log(self, verb: str) -> str:
        return self.open.log(verb)

    @contextmanager
    def running(self, verb: str) -> Iterator[subprocess.Popen[str]]:
        """A command as people start it: with a JVM of its own, and arguments of its own."""
        run = [sys.executable, "-c", "from headwater.cli.app import main; main()"]
        command = [*run, "--config", str(self.deployment.config), verb]
        environ = {**os.environ, **self.deployment.environment}
        with (self.deployment.home / f"{verb}.log").open("a", encoding="utf-8") as stream:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=stream, stderr=stream, text=True,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stored(self, view: str) -> list[tuple[Any, ...]]:
        """A view's rows, as its store's own administrator sees them."""
        name, store = self.view(view), VIEWS[view][0]
        if store == "tables":
            there = ask(self.roles.store, f"select to_regclass('reports.{name}')") != [(None,)]
            return ask(self.roles.store, f"select * from reports.{name}") if there else []
        if store == "cache":
            live = self.cache.get(f"{name}@live")
            documents = [self.cache.hget(f"{live}:{i}", "doc") for i in range(1, 40)]
            rows = [json.loads(one) for one in documents if one]
        else:
            request = f"{self.search}/{name}/_search?size=99&ignore_unavailable=true"
            try:
                with urllib.request.urlopen(f"{request}&allow_no_indices=true") as answer:
                    rows = [hit["_source"] for hit in json.load(answer)["hits"]["hits"]]
            except HTTPError:  # an index that is just made
                rows = []
        return [tuple(v for k, v in row.items() if not k.startswith("__")) for row in rows]

    def equal(self, *views: str) -> None:
        """Stores are as the source, in the end."""

        def is_equal(view: str) -> bool:
            rows = ask(self.roles.source, f"select * from ({VIEWS[view][1]}) v")
            return sorted(self.stored(view)) == sorted(rows)

        for view in views:
            wait_until(partial(is_equal, view), f"view {view} to be as the source\n"
                       f"{self.log('apply')[-2000:]}")  # fmt: skip


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def settings_of(own: Roles, held: Secrets, user: str, ports: dict[str, int]) -> str:
    """Lines behind ``[kafka]``."""
    authority = f'ssl_ca_location = "{own.certificate}"\n'
    spark = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port(set())),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{held.home.parent}",
        "spark.hadoop.fs.s3a.access.key": "${S3_KEY}",
        "spark.hadoop.fs.s3a.secret.key": "${S3_SECRET}",
    }
    told = ", ".join(f'"{name}" = "{value}"' for name, value in spark.items())
    return (
        f'security_protocol = "SASL_SSL"\nsasl_mechanism = "SCRAM-SHA-512"\n'
        f'sasl_username = "{user}"\nsasl_password = "${{KAFKA_PASSWORD}}"\n{authority}'
        f'[stores.tables]\nkind = "postgres"\ntarget_schema = "reports"\n'
        f'dsn = "{own.dsn(own.store, own.writer, "${STORE_PASSWORD}")}"\n'
        f'[stores.search]\nkind = "opensearch"\nurl = "https://{HOST}:{ports["search"]}"\n'
        f'user = "{user}"\npassword = "${{SEARCH_PASSWORD}}"\n{authority}'
        f'[stores.cache]\nkind = "redis"\n{authority}'
        f'url = "rediss://{user}:${{CACHE_PASSWORD}}@{HOST}:{ports["cache"]}/0"\n'
        f'[apply]\nstate = "{held.home.parent}/state"\nspark = {{ {told} }}\n'
        f'[alerts]\nwebhook = "http://{HOST}:9"\nsecret_file = "{held.file("WEBHOOK_SECRET")}"\n'
        f'[tables."app.orders"]\nmirror = false\n'
    )
