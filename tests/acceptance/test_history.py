"""Views that keep what rows were, on the whole path: as of any LSN they are what the source was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import DecimalType, IntegerType, StringType, StructType

from tests.deployment import Deployment
from tests.histories import as_of, at_once, rows_of
from tests.lending import Lender

SQL = "select id, total, note from orders where total > 0"
COLUMNS = (
    StructType().add("id", IntegerType()).add("total", DecimalType(12, 2)).add("note", StringType())
)
HISTORIES = ("log", "scd2")
TRANSACTIONS = (
    ("update orders set total = total + 1 where id <= 2",),  # the large note is left out
    ("update orders set id = 10 where id = 2", "insert into orders values (5, 5, 'five')"),
    (
        "update orders set total = 20 where id = 1",
        "update orders set total = 0 where id = 1",
        "update orders set total = 21, note = 'back' where id = 1",
        "insert into orders values (6, 0, 'never seen')",
    ),
    ("delete from orders where id in (3, 5)", "insert into orders values (3, 33, 'again')"),
    ("update orders set total = -1 where id = 4",),
    ("truncate orders", "insert into orders values (1, 1, 'after')"),
    ("update orders set note = 'last'",),
)


@pytest.fixture
def shop(tmp_path: Path, source_name: str, database: str, kafka: str, lender: Lender) -> Deployment:
    views = "".join(
        f'[views.{source_name}_{history}]\nstore = "lake"\nkey = ["id"]\nhistory = "{history}"\n'
        f'sql = "{SQL}"\n'
        for history in HISTORIES
    )
    extra = (
        f'[stores.lake]\nkind = "delta"\npath = "{tmp_path}/lake"\n'
        f'[apply]\nstate = "{tmp_path}/state"\n{views}'
    )
    made = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    made.execute(
        "create table orders (id int primary key, total numeric(12,2), note text)",
        "alter table orders alter column note set storage external",
        "insert into orders select i, i, repeat('n' || i, 2000) from generate_series(1, 4) i",
    )
    made.init()
    return made


@pytest.mark.timeout(1200)
def test_as_of_any_lsn_they_are_what_the_source_was(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.captured(capture)
        begun = shop.run("apply", "--available-now")  # a history begins with its first build
        assert begun.returncode == 0, begun.stderr
        moments = [at_once(shop.dsn, SQL, "create table elsewhere (id int)")]  # WAL goes on
        for statements in TRANSACTIONS:
            moments.append(at_once(shop.dsn, SQL, *statements))
            if "set id" in statements[0]:  # what is large is asked for behind it
                shop.captured(capture)
        shop.captured(capture)
        done = shop.run("apply", "--available-now")
        assert done.returncode == 0, done.stderr
        found = {}
        for history in HISTORIES:
            rows = rows_of(shop.home / "lake" / f"{shop.name}_{history}", COLUMNS, history)
            for lsn, wanted in moments:
                then = as_of(history, rows, lsn)
                assert {i: (row["total"], row["note"]) for i, row in then.items()} == wanted
            found[history] = sorted(row["id"] for row in rows)
        assert found["scd2"] == [1] * 6 + [2] * 2 + [3] * 2 + [4, 5, 10]
        # of 1: read, three changes, gone in between, gone with TRUNCATE, made, changed
        assert found["log"].count(1) == 8
        assert set(found["log"]) == {1, 2, 3, 4, 5, 10}

        view = f"{shop.name}_log"
        waited = shop.run("wait", view, "--timeout", "120")
        assert f"{view}: holds " in waited.stdout, waited.stderr
        shown = json.loads(shop.run("view", "show", view, "--json").stdout)
        assert (shown["settings"], shown["live"]) == ({"history": "log"}, 1)
        verified = shop.run("verify", view, "--timeout", "120", timeout_s=600)
        assert "equal at LSN" in verified.stdout, verified.stdout + verified.stderr
