"""``source.columns``: what must not leave the source is in no topic, no log and no view."""

from __future__ import annotations

import pytest

from cdc.kafka.broker import Broker
from tests.support.commands.deployment import Deployment, answer, fold

MARKED = "MARKED"
EXCLUDED = 'columns = { "public.person" = { ssn = "exclude" } }\n'


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table person (id int primary key, ssn text, name text)",
        f"insert into person values (1, '{MARKED}1', 'a'), (2, '{MARKED}2', 'b')",
    )
    deployment.settings = EXCLUDED
    return deployment


def everything(shop: Deployment) -> str:
    """All records of the source's topics, and what capture has said."""

    def read(broker: Broker) -> str:
        topics = broker.topics(f"{shop.name}.")
        assert f"{shop.name}.public.person" in topics
        assert f"{shop.name}.__schemas" in topics
        ends = broker.end_offsets(topics)
        return repr([
            (record.key, record.value, list(record.headers))
            for topic in topics
            for partition, end in ends[topic].items()
            for record in broker.read(topic, partition, 0, end)
        ])  # fmt: skip

    return answer(shop.bootstrap, read) + shop.log("capture")


def people(shop: Deployment) -> list[dict[str, object]]:
    return sorted(fold(shop.events("person")).values(), key=lambda row: row["id"])


def test_neither_snapshots_nor_the_stream_bring_an_excluded_column(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            f"insert into person values (3, '{MARKED}3', 'c')",
            f"update person set ssn = '{MARKED}4' where id = 1",
            f"update person set id = 5, ssn = '{MARKED}5' where id = 2",
            "delete from person where id = 3",
            f"insert into person select i, '{MARKED}' || i, 'x' from generate_series(10, 600) i",
            "delete from person where id >= 10",
        )
        shop.captured(capture)
        shop.execute(
            "alter table person rename ssn to tax_number",
            f"insert into person values (6, '{MARKED}6', 'f')",
        )
        shop.captured(capture)
        shop.settings = EXCLUDED.replace("ssn", "tax_number")
        snapshot = shop.run("snapshot", "start", "public.person")
        assert snapshot.returncode == 0, snapshot.stderr
    assert people(shop) == [
        {"id": 1, "name": "a"}, {"id": 5, "name": "b"}, {"id": 6, "name": "f"},
    ]  # fmt: skip
    assert MARKED not in everything(shop)


def test_an_entry_that_comes_later_holds_also_for_wal_that_was_written_before(
    shop: Deployment,
) -> None:
    shop.settings = ""
    shop.execute("delete from person")
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
    shop.execute(
        f"insert into person values (1, '{MARKED}1', 'a'), (2, '{MARKED}2', 'b')",
        "alter table person rename ssn to tax_number",
        f"insert into person values (3, '{MARKED}3', 'c')",
        "alter table person rename to people",
    )
    shop.settings = EXCLUDED.replace("ssn", "tax_number").replace("person", "people")
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "publishes public.people.tax_number, which source.columns excludes" in refused.stderr
    _, found = shop.check()
    (fault,) = [one for one in found["error"] if one["check"] == "columns"]
    statements = fault["hint"].partition(": ")[2].split("; ")[:2]
    shop.execute(f"begin; {'; '.join(statements)}; commit")
    with shop.running("capture") as capture:
        shop.execute(f"update people set tax_number = '{MARKED}4', name = 'd' where id = 1")
        shop.captured(capture)
    assert people(shop) == [
        {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"},
    ]  # fmt: skip
    assert fold(shop.events("people")) == {'{"id": 1}': {"id": 1, "name": "d"}}
    assert MARKED not in everything(shop)
    shop.execute("alter table people add column city text")
    code, found = shop.check()
    (warning,) = [one for one in found["warning"] if one["check"] == "columns"]
    assert "does not publish public.people.city" in warning["message"]
    assert code == 0


def test_an_entry_that_cannot_hold_is_refused_before_anything_is_made(shop: Deployment) -> None:
    shop.execute(
        "create table whole (id int primary key, note text)",
        "alter table whole replica identity full",
    )
    for columns, said in (
        ('"public.persn" = { ssn = "exclude" }', "Did you mean public.person?"),
        ('"public.person" = { snn = "exclude" }', "has no column snn"),
        ('"public.person" = { id = "exclude" }', "id identifies its rows"),
        ('"public.whole" = { note = "exclude" }', "REPLICA IDENTITY FULL"),
        ('"public.person" = { ssn = "maks" }', "is 'maks': write \"exclude\""),
    ):
        shop.settings = f"columns = {{ {columns} }}\n"
        refused = shop.run("init")
        assert refused.returncode != 0
        assert said in refused.stderr
    shop.execute(f"do $$ begin assert not exists (select from pg_publication where pubname = "
                 f"'headwater_{shop.name}'); end $$")  # fmt: skip


def test_a_view_that_reads_an_excluded_column_is_refused_with_the_reason(
    shop: Deployment,
) -> None:
    """One that is generated, too, which a mirror could compute."""
    shop.execute("alter table person add risk text generated always as (name || '!') stored")
    shop.settings = EXCLUDED.replace('"exclude"', '"exclude", risk = "exclude"')
    shop.init()
    shop.extra = '[stores.lake]\nkind = "delta"\npath = "./lake"\n' + "".join(
        f'[views.{name}]\nstore = "lake"\nkey = ["id"]\nsql = "select id, {name} from person"\n'
        for name in ("ssn", "risk", "name")
    )
    code, found = shop.check()
    assert code == 1
    faults = {one["check"]: one for one in found["error"]}
    for name in ("ssn", "risk"):
        fault = faults[f"view {name}"]
        assert f"source.columns excludes public.person.{name}" in fault["message"]
        assert fault["hint"] == "Leave it out of the view."
    assert "view name" not in faults
