"""The names that a generation of a view keeps, over restarts and from an older Headwater on."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.errors import ViewError
from cdc.topics import table_topic
from jobs.generations.declaration import declared
from jobs.generations.view_state import Beginning, ViewState, open_state
from jobs.without_mirrors.column_names import Names
from jobs.without_mirrors.dead_letters.letter import Letter, Letters
from jobs.without_mirrors.schemas_topic import Versions
from tests.support.events.events import Record, event, kafka_frame
from verification.parked_rows import _renamed
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.spark.view import resolve_view
from views.table_versions import TableColumn, TableVersion
from views.types import INT4

VIEW = parse_view("v", "s", ("id",), "select id, a from t")
TOPIC = "shop.public.t"


def version(names: str, *attnums: int | None, key: str = "id") -> TableVersion:
    pairs = zip(names.split(), attnums, strict=True)
    columns = tuple(TableColumn(name, INT4, True, attnum) for name, attnum in pairs)
    oid = 16400 if None not in attnums else 0
    return TableVersion(f"{names} {key}", "public", "t", columns, (key,), oid)


WAS, RENAMED = version("id a", 1, 2), version("id x", 1, 2)
KEYED = version("no a", 1, 2, key="no")


class Partitions:
    """Of the table's topic."""

    def __init__(self, count: int) -> None:
        self.count = count

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return dict.fromkeys(topics, self.count)


def names(state: ViewState, partitions: int = 1) -> Names:
    return Names(cast("Any", Partitions(partitions)), partial(table_topic, "shop"), VIEW, state)


def under(found: Names, *versions: TableVersion) -> list[list[str]]:
    """What the columns of each version are called."""
    of_table: Versions = {one.schema_id: one for one in versions}
    (named,) = found.under({"public.t": of_table}).values()
    found.remember()
    return [[column.name for column in one.columns] for one in named.values()]


def opened(home: Path, begun: bool = True, beginning: Beginning | None = None) -> ViewState:
    state = open_state(home / "v", declared(VIEW), beginning)
    if begun:
        (state.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (state.checkpoint / "offsets" / "0").touch()
    return state


def test_they_are_kept_by_a_generation_that_has_begun(tmp_path: Path) -> None:
    assert under(names(opened(tmp_path)), WAS) == [["id", "a"]]
    assert under(names(opened(tmp_path)), WAS, RENAMED) == [["id", "a"]] * 2
    assert under(names(opened(tmp_path)), RENAMED) == [["id", "a"]]


def test_one_that_has_not_begins_with_the_newest_version(tmp_path: Path) -> None:
    assert under(names(opened(tmp_path, begun=False)), WAS) == [["id", "a"]]
    assert under(names(opened(tmp_path, begun=False)), WAS, RENAMED) == [["id", "x"]] * 2


def test_one_that_is_filled_begins_with_the_version_it_was_filled_by(tmp_path: Path) -> None:
    state = opened(tmp_path, False, Beginning({}, 1, 1))
    names(state).anew({"public.t": {WAS.schema_id: WAS}})
    assert under(names(opened(tmp_path, False)), WAS, RENAMED) == [["id", "a"]] * 2


def test_one_of_an_older_headwater_takes_the_newest_version_that_its_sql_fits(
    tmp_path: Path,
) -> None:
    state = opened(tmp_path)
    document = json.loads(state.file.read_text())
    assert "tables" not in document
    assert under(names(state), WAS, RENAMED) == [["id", "a"]] * 2


def test_attnums_that_become_known_let_a_stopped_view_go_on(tmp_path: Path) -> None:
    state, unknown = opened(tmp_path), version("id a", None, None)
    assert under(names(state), unknown, RENAMED) == [["id", "a"], ["id", "x"]]
    known = replace(WAS, schema_id=unknown.schema_id)
    assert under(names(opened(tmp_path)), known, RENAMED) == [["id", "a"]] * 2


def test_a_version_whose_columns_are_not_certain_stops_the_view(tmp_path: Path) -> None:
    found = names(opened(tmp_path))
    under(found, WAS)
    unknown = replace(version("id a", None, None), schema_id="unknown", oid=16400)
    of_table: Versions = {each.schema_id: each for each in (WAS, unknown)}
    named = found.under({"public.t": of_table})["public.t"]["unknown"]
    with pytest.raises(ViewError, match=r"view v: which columns these of public\.t are is not"):
        resolve(VIEW, named)
    joined = "select t.id, u.a from t join u on u.id = t.id"
    tables = {"public.t": named, "public.u": replace(WAS, table="u")}
    with pytest.raises(ViewError, match=r"which columns these of public\.t are is not certain"):
        resolve_view(parse_view("v", "s", ("id",), joined), tables)


def test_a_version_whose_columns_are_others_than_when_it_was_read_stops_the_view(
    tmp_path: Path,
) -> None:
    was = replace(version("id a b", 1, 2, 3), schema_id="one")
    now = replace(was, columns=version("id a b", 1, 3, 4).columns)
    under(names(opened(tmp_path)), was)
    for _ in range(2):  # it stays so
        with pytest.raises(ViewError, match=r"a column of public\.t was dropped and another has"):
            under(names(opened(tmp_path)), now)
    fresh = names(opened(tmp_path / "rebuilt", begun=False))
    assert under(fresh, now) == [["id", "a", "b"]]


def test_a_renamed_key_is_followed_in_one_partition_alone(tmp_path: Path) -> None:
    assert under(names(opened(tmp_path)), WAS, KEYED) == [["id", "a"]] * 2
    assert under(names(opened(tmp_path), 2), WAS, KEYED) == [["id", "a"], ["no", "a"]]
    assert under(names(opened(tmp_path), 2), WAS, RENAMED) == [["id", "a"]] * 2


def test_keys_that_take_each_others_names_are_not_followed_over_several(tmp_path: Path) -> None:
    both = replace(version("a b", 1, 2), key=("a", "b"))
    swapped = replace(version("b a", 1, 2), key=("b", "a"))
    of_table: Versions = {one.schema_id: one for one in (both, swapped)}
    under(names(opened(tmp_path)), both)
    (named,) = names(opened(tmp_path), 2).under({"public.t": of_table}).values()
    assert [bool(one.refused) for one in named.values()] == [False, True]
    assert "its topic has several partitions" in named[swapped.schema_id].refused
    (named,) = names(opened(tmp_path)).under({"public.t": of_table}).values()
    assert [bool(one.refused) for one in named.values()] == [False, False]


def test_another_column_as_the_key_is_not_the_old_one_over_several_either(tmp_path: Path) -> None:
    another = replace(version("a id", 2, 3), key=("id",))
    under(names(opened(tmp_path)), WAS)
    of_table: Versions = {one.schema_id: one for one in (WAS, another)}
    for partitions in (1, 2):
        (named,) = names(opened(tmp_path), partitions).under({"public.t": of_table}).values()
        assert named[another.schema_id].key == ("id (another column)",)


def parked(*keys: bytes) -> Letters:
    letters = Letters()
    rows = [Letter(TOPIC, 0, i, key, b"{}", 2, None, 1, 1, "odd") for i, key in enumerate(keys)]
    letters.add(rows)
    return letters


def of_topic(spark: SparkSession, *records: Record) -> DataFrame:
    return kafka_frame(spark, records).withColumn("topic", F.lit(TOPIC))


@pytest.mark.parametrize(
    ("keys", "flowing", "is_refused"),
    [
        ([b'{"id":1}'], "id", False),
        ([b'{"id":1}'], "no", True),
        ([b'{"no":1}'], "no", False),
        ([b'{"no":1}'], "id", True),  # renamed back
        ([b'{"id":1}', b'{"no":2}'], "no", True),
        ([b"{oops", b"[1]", b"\xff", b'{"other":1}'], "no", False),  # no events' keys
        ([b"{oops", b'{"id":1}'], "other", False),
    ],
)
def test_parked_keys_have_to_be_settled_before_events_flow_under_another_name(
    spark: SparkSession, tmp_path: Path, keys: list[bytes], flowing: str, is_refused: bool
) -> None:
    found, row = names(opened(tmp_path)), {flowing: 3}
    records = of_topic(spark, event(1, 1, row, key=(flowing,)), (b"{oops", b""))
    under(found, WAS, RENAMED)
    found.refuse_parked(parked(*keys), records)
    under(found, WAS, KEYED)
    if is_refused:
        with pytest.raises(ViewError, match=r"a key column of shop\.public\.t was renamed"):
            found.refuse_parked(parked(*keys), records)
    else:
        found.refuse_parked(parked(*keys), records)


def test_keys_that_exchange_names_are_told_by_their_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    both = replace(version("a b", 1, 2), key=("a", "b"))
    swapped = replace(version("b a", 1, 2), key=("b", "a"))
    found = names(opened(tmp_path))
    under(found, both, swapped)
    records = of_topic(spark, event(1, 1, {"a": 1, "b": 2}, key=("b", "a")))
    found.refuse_parked(parked(b'{"b":1,"a":2}'), records)
    with pytest.raises(ViewError, match="was renamed while keys"):
        found.refuse_parked(parked(b'{"a":1,"b":2}'), records)


def test_a_parked_key_is_read_by_the_names_it_is_spelled_with() -> None:
    """Of two columns that took each other's names only their order tells."""
    both = replace(version("a b", 1, 2), key=("a", "b"))
    now = {"a": "b", "b": "a"}
    called = [("b", "a"), ("a", "b")]
    old, new = b'{"a":1,"b":2}', b'{"b":1,"a":2}'
    for key in (old, new):
        assert json.loads(_renamed(key, called, both, now)) == {"b": 1, "a": 2}
