"""Histories in the shared stream, on the whole path: kills, DDL, commands; as of any LSN they are
what the source was."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import DecimalType, IntegerType, StringType, StructType

from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.views.histories import as_of, at_once, rows_of
from tests.support.waiting import wait_until

SQL: Final = "select id, total, note from orders where total > 0"
COLUMNS: Final = (
    StructType().add("id", IntegerType()).add("total", DecimalType(12, 2)).add("note", StringType())
)
KINDS: Final = ("log", "scd2")
TRANSACTIONS: Final[tuple[tuple[str, ...], ...]] = (
    ("update orders set total = total + 1 where id <= 2",),  # the large note is left out
    ("update orders set id = 10 where id = 2", "insert into orders values (7, 5, 'seven')"),
    (
        "update orders set total = 20 where id = 1",
        "update orders set total = 0 where id = 1",
        "update orders set total = 21, note = 'back' where id = 1",
        "insert into orders values (6, 0, 'never seen')",
    ),
    ("alter table orders add column extra text default 'x'", "update orders set extra = 'y'"),
    ("delete from orders where id in (3, 5)", "insert into orders values (3, 33, 'again')"),
    ("update orders set total = -1 where id = 4",),
    ("truncate orders", "insert into orders values (1, 1, 'after')"),
    ("update orders set note = 'last'",),
)


@pytest.fixture
def shop(tmp_path: Path, source_name: str, database: str, kafka: str, lender: Lender) -> Deployment:
    views = "".join(
        f'[views.{source_name}_{kind}]\nstore = "lake"\nkey = ["id"]\nhistory = "{kind}"\n'
        f'sql = "{SQL}"\n'
        for kind in KINDS
    )
    extra = (
        f'[stores.lake]\nkind = "delta"\npath = "{tmp_path}/lake"\ncadence_s = 0.2\n'
        f'[apply]\nengine = "database"\nstate = "{tmp_path}/state"\n{views}'
    )
    made = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    made.execute(
        "create table orders (id int primary key, total numeric(12,2), note text)",
        "alter table orders alter column note set storage external",
        "insert into orders select i, i, repeat('n' || i, 2000) from generate_series(1, 5) i",
    )
    made.init()
    return made


def check(shop: Deployment, moments: list[tuple[int, dict[Any, Any]]]) -> dict[str, Counter[int]]:
    """Views are what the source was, each change once; how often each row is there."""
    counted: dict[str, Counter[int]] = {}
    for kind in KINDS:
        rows = rows_of(shop.home / "lake" / f"{shop.name}_{kind}", COLUMNS, kind)
        changes = {(row["id"], row["__commit_lsn"], row["__ordinal"]) for row in rows}
        assert len(changes) == len(rows), "a change is there twice"
        counted[kind] = Counter(row["id"] for row in rows)
        for lsn, wanted in moments:
            then = as_of(kind, rows, lsn)
            found = {id_: (row["total"], row["note"]) for id_, row in then.items()}
            assert found == wanted, (kind, lsn)
    return counted


@pytest.mark.timeout(1200)
def test_kills_ddl_and_commands_lose_no_change(shop: Deployment) -> None:
    names = [f"{shop.name}_{kind}" for kind in KINDS]
    with shop.running("capture") as capture:
        shop.captured(capture)
        moments = []
        with shop.running("apply", "--json") as process:
            wait_until(lambda: shop.log("apply").count("view_built") == 2, "views", 300)
            moments.append(at_once(shop.dsn, SQL, "create table elsewhere (id int)"))  # WAL goes on
            for statements in TRANSACTIONS[:4]:
                moments.append(at_once(shop.dsn, SQL, *statements))
                if "set id" in statements[0]:  # what is large is asked for behind it
                    shop.captured(capture)
            wait_until(lambda: shop.log("apply").count("rows_applied") > 0, "rows to be applied")
            process.kill()
            process.wait(60)
        moments += [at_once(shop.dsn, SQL, *statements) for statements in TRANSACTIONS[4:]]
        with shop.running("apply", "--json"):
            waited = shop.run("wait", *names, "--timeout", "120")
            assert waited.returncode == 0, waited.stderr + shop.log("apply")[-3000:]
            counted = check(shop, moments)
            # Of 1: read, four changes, gone in between, gone with TRUNCATE, made, changed.
            assert counted["log"] == {1: 9, 2: 3, 3: 5, 4: 3, 5: 3, 7: 3, 10: 3}
            assert counted["scd2"] == {1: 7, 2: 2, 3: 3, 4: 2, 5: 2, 7: 2, 10: 2}
            shown = json.loads(shop.run("view", "show", names[0], "--json").stdout)
            assert (shown["settings"], shown["live"]) == ({"history": "log"}, 1)
            refused = shop.run("view", "rebuild", *names)
            assert refused.returncode != 0
            assert "has history since" in refused.stderr
            anew = shop.run("view", "rebuild", *names, "--new-history", timeout_s=300)
            assert anew.returncode == 0, anew.stderr
            late = [
                at_once(shop.dsn, SQL, "update orders set total = 7"),
                at_once(shop.dsn, SQL, "delete from orders"),
            ]
            assert shop.run("wait", *names, "--timeout", "120").returncode == 0
            check(shop, late)
            back = shop.run("view", "rollback", names[0])
            assert back.returncode == 0, back.stderr
            assert shop.run("wait", *names, "--timeout", "120").returncode == 0
            rows = rows_of(shop.home / "lake" / names[0], COLUMNS, "log")
            assert as_of("log", rows, late[-1][0]) == {}
            assert as_of("log", rows, moments[1][0]).keys() == moments[1][1].keys()
            verified = shop.run("verify", names[0], "--timeout", "120", timeout_s=600)
            assert "equal at LSN" in verified.stdout, verified.stdout + verified.stderr
