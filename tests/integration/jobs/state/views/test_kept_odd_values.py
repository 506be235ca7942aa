"""Views that are kept, and values that Python cannot read, takes for others, or no B-tree takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting

SCHEMA = """
create table orders (id int primary key, at timestamptz, tags text[]);
insert into orders values (1, '2026-01-31 00:00Z', '{a}'), (2, '2026-02-28 00:00Z', '{b}');
create table gates (id int primary key, json jsonb, none jsonb, number numeric, moment timestamptz,
    span interval, whole int);
insert into gates values (1, '{"on": 1}', null, 1.0, '2026-01-01Z', '30 days', 1);
"""


@pytest.fixture
def setting(postgres: str) -> Iterator[EngineSetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        found = EngineSetting(source, state, SCHEMA)
        yield found
        found.close()


def test_what_decides_over_a_whole_view_is_compared_as_postgresql_tells_it(
    setting: EngineSetting,
) -> None:
    """Values of which Python says that they are the same, and some that it has none for."""
    shown = {
        "json": "(select json from gates where id = 1)",
        "none": "(select none from gates where id = 1)",
        "number": "(select max(number) from gates)",
        "moment": "o.at < (select max(moment) from gates)",
        "span": "o.at + (select max(span) from gates)",
        "listed": "o.id in (select whole from gates)",
    }
    for name, sql in shown.items():
        kept = setting.add(name, f"select o.id, {sql} as v from orders o", ["id"])
        assert kept.view.plan.gates, name
    for change in (
        """json = '{"on": true}'""", "none = 'null'", "number = 1.00", "moment = 'infinity'",
        "span = '1 mon'", "moment = '-infinity', span = '-1 day'", "json = null, none = '0'",
        "whole = 2", "whole = null",
    ):  # fmt: skip
        setting.mirrors.execute(f"update gates set {change}")
        setting.step()
        setting.check()


def test_an_array_that_no_btree_takes_is_looked_up_all_the_same(setting: EngineSetting) -> None:
    setting.add("joined", "select o.id, p.id as other from orders o join orders p "
                "on p.tags = o.tags", ["id", "other"])  # fmt: skip
    large = "select array_agg(md5(i::text)) from generate_series(1, 500) i"
    setting.mirrors.execute(
        f"insert into orders values (3, now(), ({large})), (4, now(), ({large}))"
    )
    setting.step()
    setting.check()
    assert ("3", "4") in setting.views["joined"].store.rows
