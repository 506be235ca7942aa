"""``headwater check`` of views kept over mirrors: any SELECT, and why one cannot be kept."""

from __future__ import annotations

import pytest

from tests.support.commands.deployment import Deployment

VIEWS = {
    "top": "select id, nth from (select id, row_number() over (partition by kind order by id) "
    "as nth from item) q where nth <= 2",
    "ranked": "select id, ntile(2) over (order by id) as half from item",
    "bag": "select kind as id from item",
    "unknown": "select id, no_such(kind) as x from item",
    "elsewhere": "select id from absent",
    "computed": "select id, twice from item",
    "direct": "select id, kind from event",
    "bought": "select coalesce(price, 0) as id, count(*) as n from item group by 1",
    "priced": "select coalesce(price, 0)::numeric(8,2) as id, count(*) as n from item group by 1",
    "years": "select extract(year from day) as id, count(*) as n from item group by 1",
    "hours": "select date_part('hour', day) as id, count(*) as n from item group by 1",
    "bands": "select floor(price / 10) as id, count(*) as n from item where price > 0 group by 1",
    "kinds": "select upper(kind) as id, count(*) as n from item group by 1",
}


@pytest.fixture
def found(deployment: Deployment) -> dict[str, tuple[str, str]]:
    """Level and message of each view's finding."""
    deployment.execute(
        "create table item (id int primary key, kind text not null, "
        "twice int generated always as (id * 2) stored, price numeric, "
        "day timestamp not null default now())",
        "create table event (id int primary key, kind text)",
        "create table doc (id int primary key, body jsonb)",
        """insert into doc select i, jsonb_build_object('id', i, 'of', jsonb_build_array(
           jsonb_build_object('name', 'x', 'n' || i % 3, 1))) from generate_series(1, 20) i""",
        "insert into item select i, 'k' from generate_series(1, 20) i",
        "analyze item",
    )
    views = "".join(
        f'[views.{name}]\nstore = "cache"\nkey = ["id"]\nsql = """{sql}"""\n'
        for name, sql in VIEWS.items()
    )
    for name, kind in (("opened", "object"), ("flat", "flat_object")):
        views += f'[views.{name}]\nstore = "search"\nkey = ["id"]\nsql = "select * from doc"\n'
        views += f'mapping = {{ body = {{ type = "{kind}" }} }}\n'
        views += 'settings = { "mapping.total_fields.limit" = 13 }\n'
    deployment.extra = (
        f'[stores.cache]\nkind = "redis"\nurl = "redis://127.0.0.1:1/0"\n'
        f'[stores.search]\nkind = "opensearch"\nurl = "http://127.0.0.1:1"\n'
        f'[apply]\nwhole_rows = 19\n[tables."public.event"]\nmirror = false\n{views}'
    )
    _, findings = deployment.check()
    return {
        finding["check"].removeprefix("view "): (level, finding["message"])
        for level, of_level in findings.items()
        for finding in of_level
        if finding["check"].startswith("view ")
    }


def test_each_view_is_told_how_it_is_kept_or_why_it_cannot_be(
    found: dict[str, tuple[str, str]],
) -> None:
    assert found["computed"] == ("ok", "in cache, incremental: id int4, twice int4")
    assert found["direct"] == ("ok", "in cache: id int4, kind text")
    assert found["top"] == ("ok", "in cache, incremental: id int4, nth int8")
    level, said = found["ranked"]
    assert level == "warning"
    assert said.startswith("has some 20 rows by the planner's estimate, and apply.whole_rows is 19")
    assert "computed whole (" in said
    level, said = found["bag"]
    assert (level, "not unique" in said) == ("error", True), said
    assert found["unknown"][0] == "error"
    level, said = found["elsewhere"]
    assert (level, "public.absent, a table that is not captured" in said) == ("error", True), said
    level, said = found["bought"]
    assert (level, "'id' is numeric, whose equal values can have" in said) == ("error", True), said
    assert {found[one][0] for one in ("priced", "years", "hours", "bands", "kinds")} == {"ok"}
    level, said = found["opened"]
    counted = "its index has 12 fields, 7 of them of JSON in 1,000 rows, and may have 13"
    assert (level, said.partition(";")[0]) == ("warning", counted)
    assert found["flat"] == ("ok", "in search, incremental: id int4, body jsonb")
