"""What of a table a view is compared with: the rows and columns that are published, by its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cdc.errors import SourceError
from cdc.kafka.broker import Broker
from jobs.sinks.contract import ViewRow
from jobs.without_mirrors.schemas_topic import read_versions
from tests.support.commands.deployment import Deployment
from tests.support.sample_view import MemoryView
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve


class Things(MemoryView):
    """A view of ``things`` as it is, or of another table."""

    sql = ""

    def resolved(self) -> ResolvedView:
        sql = self.sql or f"select * from {self.table}"
        definition = parse_view(self.name, "store", ["id"], sql)
        versions = read_versions(self.broker, self.deployment.name, "public", self.table)
        return resolve(definition, list(versions.values())[-1])


@pytest.fixture
def shop(tmp_path: Path, source_name: str, database: str, kafka: str) -> Deployment:
    return Deployment(tmp_path, source_name, database, kafka, tables=("public.things",))


@contextmanager
def captured(shop: Deployment) -> Iterator[Things]:
    shop.init()
    with shop.running("capture") as capture, Broker(shop.bootstrap) as broker:
        shop.captured(capture)
        yield Things(shop, broker)


def rename(rows: dict[int, ViewRow]) -> None:
    for row in rows.values():
        row.values["called"] = row.values["name"]


PUBLISHED = (
    "select * from things -- all of it",
    "select t.id, name as called from public.things as t where t.name <> 'no';",
    'select things.id, "name" from "public"."things" where things.name <> \'from things\'',
)


def test_rows_and_columns_that_are_not_published_are_not_missed(shop: Deployment) -> None:
    shop.execute(
        "create table things (id int primary key, secret text, name text, region text)",
        f"create publication headwater_{shop.name} for table only things (id, name)"
        " where (id % 2 = 0) with (publish_via_partition_root = true)",
        "insert into things select i, 's', 'n' || i, 'r' from generate_series(1, 10) i",
    )
    with captured(shop) as view:
        for sql in PUBLISHED:
            view.sql = sql
            if "called" in sql:
                view.bend = rename
            view.apply()
            report = view.verify()
            assert (report.source_rows, report.equal, report.differences) == (5, True, []), sql


def test_rows_of_inheriting_tables_are_not_the_tables_own(shop: Deployment) -> None:
    shop.execute(
        "create table things (id int primary key, name text)",
        "create table more (primary key (id)) inherits (things)",
        "insert into things values (1, 'own')",
        "insert into more values (2, 'of the child')",
    )
    with captured(shop) as view:
        report = view.verify()
        assert (report.source_rows, report.equal) == (1, True)


def test_a_literal_that_is_no_value_of_its_type_is_the_sqls_fault(shop: Deployment) -> None:
    shop.execute(
        "create type mood as enum ('good', 'bad')",
        "create table things (id int primary key, mood mood)",
    )
    with captured(shop) as view:
        view.sql = "select id from things where mood = 'bda'"
        with pytest.raises(SourceError) as caught:
            view.verify()
        assert (
            'PostgreSQL rejects a literal in it: invalid input value for enum public.mood: "bda"'
            in str(caught.value)
        )
        assert "headwater view rebuild" in caught.value.hint


KEYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("char(3)", ("'abc'", "'abd'", "'x'")),
    ("bit(3)", ("'101'", "'111'", "'001'")),
    ("date", ("'0044-03-15 BC'", "'infinity'", "'2024-02-29'")),
    ("timestamptz", ("'0044-03-15 BC'", "'12024-02-29 12:00:00.5+02'", "'2024-02-29'")),
    ("bytea", ("'\\x00ff'", "'\\x'", "'\\x41'")),
    ("numeric", ("'NaN'", "'1.50'", "'-Infinity'")),
    ("float8", ("'NaN'", "'1e300'", "'-Infinity'")),
    ("boolean", ("true", "false", "null")),
    ("interval", ("'1 year 2 days 0.5 s'", "'-1 day'", "'1 month'")),
    ("timetz", ("'12:00+05:30'", "'24:00:00'", "'01:02:03.5-08'")),
)
"""Types, and values of them."""


def test_rows_changed_during_a_round_are_found_by_a_key_of_any_type(shop: Deployment) -> None:
    shop.tables = ("public.*",)
    tables = [f"things_{number}" for number in range(len(KEYS))]
    for table, (key, values) in zip(tables, KEYS, strict=True):
        rows = ", ".join(f"({value}, 'before')" for value in values if value != "null")
        shop.execute(
            f"create table {table} (id {key} primary key, name text)",
            f"insert into {table} values {rows}",
        )
    with captured(shop) as view:
        for table, (key, _) in zip(tables, KEYS, strict=True):
            changes = [f"update {table} set name = 'after'"]
            view.table, view.on_step = table, partial(changed_meanwhile, view, changes)
            report = view.verify()
            assert report.rounds == 2, key
            assert (report.equal, report.differences) == (True, []), key


def changed_meanwhile(view: Things, changes: list[str], said: str) -> None:
    """What is to change does so when the view is read for the first time."""
    if said == "reading the view" and changes:
        view.deployment.execute(changes.pop())
        view.deployment.captured()
        view.apply()
