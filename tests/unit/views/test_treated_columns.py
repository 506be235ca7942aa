"""Columns that are treated before they leave the source: views show them, and do no more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from cdc.errors import ViewError
from views.maintain import plan_view
from views.maintain.mirror import mirror_of
from views.parse.definition import parse_view
from views.spark.view import resolve_view
from views.table_versions import TableColumn, TableVersion
from views.types import PgType

INT4, TEXT = PgType("int4"), PgType("text")
SAID = re.escape("source.columns treats it (hash 1)")
PEOPLE = TableVersion(
    "a" * 16,
    "public",
    "people",
    (
        TableColumn("id", INT4, nullable=False, attnum=1),
        TableColumn("ssn", TEXT, attnum=2, treatment="hash 1"),
        TableColumn("name", TEXT, attnum=3),
    ),
    ("id",),
    9,
)
ORDERS = TableVersion(
    "b" * 16,
    "public",
    "orders",
    (TableColumn("id", INT4, nullable=False, attnum=1), TableColumn("person", INT4, attnum=2)),
    ("id",),
    10,
)
TABLES = {"public.people": PEOPLE, "public.orders": ORDERS}
SHOWN = (
    "select id, ssn from people",
    "select * from people where name = 'a'",
    "select o.id, p.ssn as number from orders o left join people p on p.id = o.person",
)
NOT_SHOWN = (
    "select id, upper(ssn) as ssn from people",
    "select id from people where ssn is null",
    "select id, case when ssn = 'a' then 1 end as one from people",
    "select o.id, p.name from orders o join people p on p.id = o.person and p.ssn <> ''",
)


def refused(is_taken: bool) -> AbstractContextManager[object]:
    return nullcontext() if is_taken else pytest.raises(ViewError, match=SAID)


@pytest.mark.parametrize(
    ("sql", "is_taken"),
    [
        *((sql, True) for sql in SHOWN),
        ("select id, n as ssn from (select id, ssn as n from people) p", True),
        ("with p as (select * from people) select id, ssn from p", True),
        *((sql, False) for sql in NOT_SHOWN),
        ("select p.id, p.ssn, count(*) as n from people p group by p.id", False),
        ("select id, to_jsonb(p) as p from people p", False),
        ("select id, row_number() over (partition by id order by ssn) as n from people", False),
        ("select distinct id, ssn from people", False),
        ("select id from people order by ssn, id limit 3", False),
        ("select id, ssn from people union select id, name from people", False),
        ("select p.id from people p where exists (select from people q where q.ssn = p.ssn)",
         False),
        *((f"select o.id, {what} as n from orders o", False) for what in (
            "(select p.ssn from people p where p.id = o.person)",
            "length((select p.ssn from people p where p.id = o.person))",
            "array(select p.ssn from people p where p.id = o.person)",
            "o.person::text in (select p.ssn from people p)",
        )),
        ("select x.id, upper(x.n) as n from (select o.id, (select p.ssn from people p "
         "where p.id = o.person) as n from orders o) x", False),
        ("select o.id from orders o where (select p.ssn from people p where p.id = o.person) > 'a'",
         False),
        ("select o.id from orders o where o.person in (select p.id from people p)", True),
        ("select o.id from orders o where exists (select p.ssn from people p "
         "where p.id = o.person)",
         True),
    ],
)  # fmt: skip
def test_over_mirrors(sql: str, is_taken: bool) -> None:
    tables = {name: mirror_of(version) for name, version in TABLES.items()}
    with refused(is_taken):
        plan_view("v", sql, ["id"], tables)


def test_so_are_those_whose_type_the_state_database_lacks() -> None:
    own = replace(PEOPLE, columns=(PEOPLE.columns[0], TableColumn("mail", PgType("citext"))))
    tables = {"public.people": mirror_of(own, embedded=True, lacking={"citext"})}
    plan_view("v", "select id, mail from people", ["id"], tables)
    made = "select id, json_build_object('mail', mail) as j from people"
    with pytest.raises(ViewError, match=r"does not have its type\. .*in apply\.state_dsn"):
        plan_view("v", made, ["id"], tables)
    plan_view("v", made, ["id"], {"public.people": mirror_of(own, embedded=True)})


def test_it_is_no_key_of_a_view() -> None:
    tables = {name: mirror_of(version) for name, version in TABLES.items()}
    with pytest.raises(ViewError):
        plan_view("v", "select ssn, id from people", ["ssn"], tables)


@pytest.mark.parametrize(
    ("sql", "is_taken"),
    [
        *((sql, True) for sql in SHOWN),
        *((sql, False) for sql in NOT_SHOWN),
        ("select p.id, count(*) as n from people p group by p.id, p.ssn", False),
        ("select p.id, json_build_object('ssn', p.ssn) as p from people p", False),
    ],
)
def test_by_spark(sql: str, is_taken: bool) -> None:
    key: Sequence[str] = ["id"]
    with refused(is_taken):
        resolve_view(parse_view("v", "s", key, sql), TABLES)
