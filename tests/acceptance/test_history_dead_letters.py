"""A history of SQL that only PostgreSQL judges, through a running apply: changes of which no row
can be made wait, and take their places once they can, or are given up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import DecimalType, IntegerType, StringType, StructType

from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.views.histories import as_of, at_once, rows_of
from tests.support.waiting import wait_until

SQL: Final = (
    "with priced as (select * from orders where note ~ '^n') select p.id, p.total, "
    "(100 / p.total)::numeric(12,2) as share, t.words from priced p left join lateral "
    "(select string_agg(upper(word), ' ' order by n) as words from "
    "string_to_table(p.note, ' ') with ordinality as w(word, n)) t on true"
)
MENDED: Final = SQL.replace("100 / p.total", "100 / nullif(p.total, 0)")
COLUMNS: Final = (
    StructType()
    .add("id", IntegerType())
    .add("total", DecimalType(12, 2))
    .add("share", DecimalType(12, 2))
    .add("words", StringType())
)
KINDS: Final = ("log", "scd2")


class Shop:
    """Two histories of one table."""

    def __init__(self, home: Path, name: str, dsn: str, kafka: str, jvm: Lender) -> None:
        self.deployment = Deployment(home, name, dsn, kafka, jvm=jvm)
        self.views = [f"{name}_{kind}" for kind in KINDS]
        self.declare(SQL)

    def declare(self, sql: str) -> None:
        views = "".join(
            f'[views.{view}]\nstore = "lake"\nkey = ["id"]\nhistory = "{kind}"\nsql = """{sql}"""\n'
            for view, kind in zip(self.views, KINDS, strict=True)
        )
        home = self.deployment.home
        self.deployment.extra = (
            f'[stores.lake]\nkind = "delta"\npath = "{home}/lake"\ncadence_s = 0.2\n'
            f'[apply]\nengine = "database"\nstate = "{home}/state"\n{views}'
        )

    def done(self, *arguments: str, code: int = 0) -> str:
        ended = self.deployment.run(*arguments, timeout_s=300)
        log = self.deployment.log("apply")[-3000:]
        assert ended.returncode == code, f"{arguments}: {ended.stdout}{ended.stderr}{log}"
        return ended.stdout

    def at_once(self, *statements: str) -> int:
        """The LSN that a transaction is below."""
        return at_once(self.deployment.dsn, "select 1", *statements)[0]

    def caught_up(self) -> None:
        self.done("wait", *self.views, "--timeout", "120")

    def parked(self) -> dict[str, str]:
        """The causes by key, as the first history has them."""
        found = json.loads(self.done("dead-letters", "list", self.views[0], "--json"))
        return {one["key"]: one["cause"] for one in found}

    def below(self, kind: str, lsn: int) -> dict[int, tuple[Any, ...]]:
        path = self.deployment.home / "lake" / f"{self.deployment.name}_{kind}"
        then = as_of(kind, rows_of(path, COLUMNS, kind), lsn)
        return {id_: (row["total"], row["share"], row["words"]) for id_, row in then.items()}


@pytest.mark.timeout(900)
def test_a_change_that_waits_takes_its_place_or_is_given_up(
    tmp_path: Path, source_name: str, database: str, kafka: str, lender: Lender
) -> None:
    shop = Shop(tmp_path, source_name, database, kafka, lender)
    deployment = shop.deployment
    deployment.execute(
        "create table orders (id int primary key, total numeric(12,2), note text)",
        "insert into orders select i, i, 'number ' || i from generate_series(1, 4) i",
    )
    deployment.init()
    with deployment.running("capture") as capture, deployment.running("apply", "--json"):
        deployment.captured(capture)
        _, found = deployment.check()
        told = {one["check"]: one["message"] for one in found["ok"]}
        assert f"view {shop.views[0]}" in told, found
        wait_until(lambda: deployment.log("apply").count("view_built") == 2, "views", 300)
        waits = shop.at_once("update orders set total = 0 where id <= 2")
        after = shop.at_once("update orders set total = 8 where id <= 2")
        shop.caught_up()
        assert shop.parked() == {f'{{"id":{n}}}': "division by zero" for n in (1, 2)}
        for kind in KINDS:
            assert {id_: row[0] for id_, row in shop.below(kind, after).items()} == {
                1: 8, 2: 8, 3: 3, 4: 4
            }  # fmt: skip
            assert shop.below(kind, after)[1] == (8, 12.5, "NUMBER 1")
        assert shop.done("verify", shop.views[0], "--timeout", "120")

        assert "stays parked: division by zero" in shop.done(
            "dead-letters", "retry", shop.views[0], code=1
        )
        assert len(shop.parked()) == 2
        shop.done("dead-letters", "discard", shop.views[0], "--key", '{"id":2}')
        assert list(shop.parked()) == ['{"id":1}']

        shop.declare(MENDED)
        shop.done("view", "rebuild", *shop.views, "--new-history")
        shop.done("dead-letters", "retry", shop.views[0])
        shop.caught_up()
        assert shop.parked() == {}
        for kind in KINDS:
            assert shop.below(kind, waits)[1] == (0, None, "NUMBER 1")
            assert 2 not in shop.below(kind, waits), "it was given up"
            assert shop.below(kind, after)[1] == (8, 12.5, "NUMBER 1")
        last = shop.at_once("update orders set total = 0 where id = 3")
        shop.caught_up()
        for kind in KINDS:
            assert shop.below(kind, last)[3] == (0, None, "NUMBER 3")
        for view in shop.views:
            assert "equal at LSN" in shop.done("verify", view, "--timeout", "120")
