"""What is hard on who keeps views: odd names (case, percent signs), and deep JSON."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting

SCHEMA = """
create table cases (id int primary key, "ID" int, "Name" text not null, name text, doc jsonb);
create table owners ("Id" int primary key, id int, "NAME" text);
insert into cases values (1, 2, 'N', 'n', '{}'), (2, 1, 'N', 'm', null);
insert into owners values (1, 10, 'ann'), (2, 20, 'bo')
"""
VIEWS = {
    "rows": ('select id, "ID", "Name", name from cases', ["id"]),
    "joined": (
        'select c.id, c."ID", o.id as "Id", o."NAME" as name, c.name as "Name"'
        ' from cases c join owners o on o."Id" = c."ID"',
        ["id"],
    ),
    "grouped": ('select "Name", count(*) as "Count", max(name) as count from cases group by "Name"',
                ["Name"]),
    "nested": (
        'select o."Id", jsonb_agg(jsonb_build_object(\'id\', c.id, \'ID\', c."ID") order by c.id)'
        ' as "Cases" from owners o join cases c on c."ID" = o."Id" group by o."Id"',
        ["Id"],
    ),
    "percents": ('select id as "%s", name as "100%", "Name" as "%(n)s" from cases', ["%s"]),
    "shares": ('select "Name" as "g%", count(*) as "c%s" from cases group by "Name"', ["g%"]),
    "documents": ("select id, doc ? 'a' as has, doc @> '[1]' as within, doc from cases", ["id"]),
}  # fmt: skip


@pytest.fixture
def setting(postgres: str) -> Iterator[EngineSetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = EngineSetting(source, state, SCHEMA)
        yield made
        made.close()


def test_columns_with_hard_names_and_deep_json_are_kept(setting: EngineSetting) -> None:
    for name, (sql, key) in VIEWS.items():
        setting.add(name, sql, key)
    setting.check()
    deep = "[" * 1_200 + "1" + "]" * 1_200
    for statement in (
        'update cases set "ID" = 2, "Name" = \'M\' where id = 2',
        "update cases set name = 'other' where id = 1",
        'update owners set id = 11 where "Id" = 1',
        'update owners set "NAME" = \'cy\' where "Id" = 2',
        f"update cases set doc = '{deep}' where id = 1",
        f"update cases set doc = '{{\"a\": {deep}}}' where id = 2",
        "insert into cases values (3, 1, 'N', 'x', '[1]')",
        "delete from cases where id = 2",
    ):
        setting.mirrors.execute(statement)
        setting.step()
        setting.check()
