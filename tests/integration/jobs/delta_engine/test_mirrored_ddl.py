"""DDL on the tables of a view over several, while its stream runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.errors import ViewError
from tests.support.events.events import event, truncate
from tests.support.views.mirrored_view import CUSTOMERS, ORDERS, MirroredView, version
from views.column_changes import column_changes
from views.table_versions import TableVersion
from views.types import DATE, INT4, INT8, TEXT, PgType, numeric

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirroredView:
    made = MirroredView(spark, tmp_path, monkeypatch)
    made.restart()
    made.put(CUSTOMERS, 1, id=1, name="Ada")
    made.put(ORDERS, 2, id=10, customer_id=1, total=7)
    made.apply()
    return made


def orders(key: tuple[str, ...] = ("id",), **changed: PgType | None) -> TableVersion:
    """The table with other columns; None drops one."""
    columns = {column.name: column.type for column in ORDERS.columns} | changed
    return version("orders", key, **{name: kind for name, kind in columns.items() if kind})


@pytest.mark.exhaustive
def test_what_the_view_does_not_read_may_come_and_go(view: MirroredView) -> None:
    more = orders(extra=DATE)
    view.describe(more)
    view.put(more, 3, id=11, customer_id=1, total=8, extra="2024-02-29Z")
    view.apply()
    again = orders()
    view.put(again, 4, "u", id=10, customer_id=1, total=9)
    view.apply()
    assert view.shown("total", "name") == {10: (9, "Ada"), 11: (8, "Ada")}


def test_wider_types_are_applied_to_what_is_held(view: MirroredView) -> None:
    """A key, a column that is joined by and one that is shown."""
    wide = orders(id=INT8, customer_id=INT8, total=INT8)
    view.describe(wide)
    view.put(wide, 3, id=2**40, customer_id=1, total=2**41)
    view.apply()
    assert view.shown("total", "name") == {10: (7, "Ada"), 2**40: (2**41, "Ada")}
    view.restart()
    view.put(CUSTOMERS, 4, "u", id=1, name="Ada L.")
    view.apply()
    assert view.shown("total", "name") == {10: (7, "Ada L."), 2**40: (2**41, "Ada L.")}


UNTRUE = {
    "total int4, date": (
        orders(total=DATE),
        "column 'total' of public.orders was int4 and is date",
    ),
    "renamed": (orders(total=None, amount=INT4), "total"),
    "dropped": (orders(note=None), "note"),
    "key": (orders(("id", "customer_id")), "had the key \\(id\\), has \\(id, customer_id\\)"),
    "joined": (orders(customer_id=TEXT), "customer_id"),
}


def test_what_leaves_no_truth_stops_the_view_and_shows_what_differs(view: MirroredView) -> None:
    before = view.sink.rows.copy()
    for changed, reason in UNTRUE.values():
        view.describe(changed)
        row = dict.fromkeys(changed.key, 1)
        view.write(changed, event(3, 1, row, "c", changed.key, changed.schema_id))
        for going_on in (view.apply, view.restart):  # also a process that never saw what it was
            with pytest.raises(ViewError, match=reason) as caught:
                going_on()
            said = str(caught.value)
            assert column_changes(ORDERS.types, changed.types) in said
            assert "headwater view rebuild v" in said
        assert view.sink.rows == before
        view.log.pop()
        view.describe(ORDERS)
        view.restart()


@pytest.mark.exhaustive
def test_a_key_that_may_be_null_since_stops_the_view(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After DROP NOT NULL, which leaves the ``schema_id``: there would be a group without a key."""
    columns = (column._replace(nullable=False) for column in ORDERS.columns)
    never_null = replace(ORDERS, columns=tuple(columns))
    sql = "select total, count(*) as orders from orders group by total"
    view = MirroredView(spark, tmp_path, monkeypatch, sql, ("total",), (never_null,))
    view.restart()
    view.put(never_null, 1, id=1, customer_id=1, total=7, note="")
    view.apply()
    view.describe(never_null)  # again, as capture does
    view.put(never_null, 2, id=2, customer_id=1, total=8, note="")
    view.apply()
    before = view.sink.rows.copy()
    view.describe(ORDERS)
    view.put(ORDERS, 3, id=3, customer_id=1, total=None, note="")
    for going_on in (view.apply, view.restart):
        with pytest.raises(ViewError, match=r"'total'.* can be NULL, and a row without"):
            going_on()
    assert view.sink.rows == before


@pytest.mark.exhaustive
def test_digits_may_be_added_to_a_numeric(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = (
        "select c.id, sum(p.amount) as total from customers c join paid p on p.of = c.id"
        " group by c.id"
    )
    narrow = version("paid", id=INT4, of=INT4, amount=numeric(8, 2))
    wide = version("paid", id=INT4, of=INT4, amount=numeric(12, 4))
    view = MirroredView(spark, tmp_path, monkeypatch, sql, tables=(CUSTOMERS, narrow))
    view.restart()
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(narrow, 2, id=1, of=1, amount="1.50")
    view.apply()
    view.describe(wide)
    view.put(wide, 3, id=2, of=1, amount="0.0001")
    view.apply()
    assert {key: str(total) for key, (total,) in view.shown("total").items()} == {1: "1.5001"}


def test_truncate_of_either_table_empties_its_side(view: MirroredView) -> None:
    view.put(CUSTOMERS, 3, "u", id=1, name="gone with it")
    view.write(CUSTOMERS, truncate(4, 1, CUSTOMERS.schema_id))
    view.put(CUSTOMERS, 5, id=2, name="Bob")
    view.put(ORDERS, 6, id=11, customer_id=2)
    view.apply()
    assert view.shown("name") == {10: (None,), 11: ("Bob",)}
    view.write(ORDERS, truncate(7, 1, ORDERS.schema_id))
    view.apply()
    assert view.shown("name") == {}


def numbered(table: TableVersion, **attnums: int) -> TableVersion:
    """A version whose columns' attnums are known: these, the others' in their order."""
    columns = enumerate(table.columns, 1)
    made = tuple(one._replace(attnum=attnums.get(one.name, at)) for at, one in columns)
    return replace(table, columns=made, oid=16400)


@pytest.fixture
def known(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirroredView:
    was = numbered(ORDERS)
    made = MirroredView(spark, tmp_path, monkeypatch, tables=(CUSTOMERS, was))
    made.restart()
    made.put(CUSTOMERS, 1, id=1, name="Ada")
    made.put(was, 2, id=10, customer_id=1, total=7, note="n")
    made.apply()
    return made


def test_renamed_columns_are_followed_also_over_a_restart(known: MirroredView) -> None:
    swapped = numbered(
        version("orders", id=INT4, total=INT4, customer_id=INT4, remark=TEXT)
    )  # each has the other's name
    known.describe(swapped)
    known.put(ORDERS, 3, "u", id=10, customer_id=1, total=8, note="n")
    known.put(swapped, 4, id=11, total=1, customer_id=9, remark="m")
    known.apply()
    assert known.shown("total", "note", "name") == {10: (8, "n", "Ada"), 11: (9, "m", "Ada")}
    known.restart()
    known.put(swapped, 5, "u", id=10, total=None, customer_id=3, remark="l")
    known.apply()
    assert known.shown("total", "note", "name") == {10: (3, "l", None), 11: (9, "m", "Ada")}


@pytest.mark.exhaustive
def test_a_new_column_of_an_old_name_is_not_the_old_one(known: MirroredView) -> None:
    another = numbered(
        version("orders", id=INT4, customer_id=INT4, amount=INT4, note=TEXT, total=INT4)
    )
    known.describe(another)
    known.put(another, 3, id=11, customer_id=1, amount=5, note="m", total=-1)
    known.apply()
    assert known.shown("total") == {10: (7,), 11: (5,)}


@pytest.mark.exhaustive
def test_another_column_in_the_place_of_a_dropped_one_stops_the_view(known: MirroredView) -> None:
    instead = numbered(
        version("orders", id=INT4, customer_id=INT4, amount=INT4, note=TEXT), amount=5
    )
    known.describe(instead)
    known.put(instead, 3, id=11, customer_id=1, amount=5, note="m")
    with pytest.raises(ViewError, match="total") as caught:
        known.apply()
    assert "RENAME COLUMN" not in str(caught.value)


@pytest.mark.exhaustive
def test_a_renamed_key_is_not_followed_over_several_partitions(known: MirroredView) -> None:
    """Under its new name a row's events may be in another one, and overtake the older ones."""
    keyed = numbered(version("orders", ("no",), no=INT4, customer_id=INT4, total=INT4, note=TEXT))
    known.describe(keyed)
    known.put(keyed, 3, no=11, customer_id=1, total=5, note="m")
    with pytest.raises(ViewError, match=r"had the key \(id\), has \(no\)"):
        known.apply()
