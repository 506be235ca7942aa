"""What cannot be applied to a view over several tables waits, and the rest flows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.errors import ViewError
from cdc.events.codes import PLACEHOLDER
from tests.support.events.events import snapshot
from tests.support.views.mirrored_view import CUSTOMERS, JOINED, ORDERS, MirroredView, version
from tests.support.views.parked_view import KilledError
from tests.support.views.refusing_store import RefusingSink
from views.types import INT4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOO_LARGE = 2**40
SHARES = version("shares", id=INT4, parts=INT4)
SHARED = (
    "select o.id, o.total / s.parts as share from orders o join shares s on s.id = o.customer_id"
)


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirroredView:
    made = MirroredView(spark, tmp_path, monkeypatch)
    made.restart()
    made.put(CUSTOMERS, 1, id=10, name="Ada")
    made.put(ORDERS, 2, id=10, customer_id=10, total=7)
    made.put(ORDERS, 2, id=11, customer_id=10, total=8)
    made.apply()
    return made


def test_a_key_waits_in_its_own_table_alone_until_it_is_retried_or_deleted(
    view: MirroredView,
) -> None:
    """An order of a value that is too large, and one of which nobody has a value."""
    view.put(ORDERS, 3, "u", id=10, customer_id=10, total=TOO_LARGE)
    view.put(CUSTOMERS, 4, "u", id=10, name="Ada L.")
    view.put(ORDERS, 5, "u", id=11, customer_id=10, note=PLACEHOLDER)
    view.put(ORDERS, 6, "u", id=12, customer_id=10, note=PLACEHOLDER)
    view.put(ORDERS, 7, id=13, customer_id=10)
    view.apply()
    none = (None, "Ada L.")
    assert view.shown("total", "name") == {10: (7, "Ada L."), 11: none, 13: none}
    assert "large (TOAST) value" in "".join(view.box.causes())
    view.put(ORDERS, 8, "u", id=10, customer_id=10, total=9)
    view.put(CUSTOMERS, 9, "u", id=10, name="A. L.")
    view.restart()
    view.apply()
    none = (None, "A. L.")
    assert view.shown("total", "name") == {10: (7, "A. L."), 11: none, 13: none}
    assert sorted(view.waiting()) == ['orders:{"id":10}', 'orders:{"id":12}']
    assert list(view.retry()) == ['{"id":12}']
    view.put(ORDERS, 10, "u", id=10, customer_id=None, total=10)
    view.delete(ORDERS, 11, id=12)
    view.put(ORDERS, 12, id=12, customer_id=10, note="whole")
    view.restart()
    view.apply()
    assert view.shown("total", "name") == {10: (10, None), 11: none, 12: none, 13: none}
    assert view.shown("note")[12] == ("whole",)
    assert view.waiting() == {}


@pytest.mark.exhaustive
def test_records_that_are_no_events_and_a_replay_write_no_letter_twice(view: MirroredView) -> None:
    view.write(CUSTOMERS, (b'{"id":10}', b"{"))
    view.write(ORDERS, (b'{"id":10}', b"odd"))
    view.put(ORDERS, 3, id=12, customer_id=10)
    view.box.killing = "after write"
    with pytest.raises(KilledError):
        view.apply()
    view.box.killing = ""
    view.restart()
    view.apply()
    view.go_back(1)
    view.apply()
    assert view.shown("name") == {10: ("Ada",), 11: ("Ada",), 12: ("Ada",)}
    assert sorted(view.waiting()) == ['customers:{"id":10}', 'orders:{"id":10}']
    assert len(view.box.written) == 2


@pytest.mark.exhaustive
def test_a_row_that_no_single_event_is_to_blame_for_waits_by_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MirroredView(spark, tmp_path, monkeypatch, SHARED, tables=(ORDERS, SHARES))
    view.restart()
    view.put(SHARES, 1, id=1, parts=2)
    view.put(SHARES, 1, id=2, parts=0)
    for id_ in range(10, 16):
        view.put(ORDERS, 2, id=id_, customer_id=1, total=8)
    view.apply()
    view.put(ORDERS, 3, "u", id=12, customer_id=2, total=8)
    view.put(ORDERS, 3, "u", id=13, customer_id=1, total=6)
    view.apply()
    assert view.shown("share") == dict.fromkeys((10, 11, 12, 14, 15), (4,)) | {13: (3,)}
    assert view.waiting() == {'{"id":"12"}': []}
    assert "DIVIDE_BY_ZERO" in view.box.causes()[0]
    assert list(view.retry()) == ['{"id":"12"}']
    view.restart()
    view.put(SHARES, 4, "u", id=2, parts=4)  # of the other table, and the row is made anew
    view.apply()
    assert view.shown("share")[12] == (2,)
    assert view.waiting() == {}


NUMBERED = "select coalesce(o.note::int, 0) as id, count(*) as n from orders o group by 1"


@pytest.mark.exhaustive
def test_a_row_whose_key_in_the_view_cannot_be_computed_waits_in_its_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MirroredView(spark, tmp_path, monkeypatch, NUMBERED, tables=(ORDERS,))
    view.restart()
    for id_, note in enumerate(["5", "5", "three", "5"], 1):  # all stand at one position
        row = {"id": id_, "customer_id": None, "total": None, "note": note}
        view.write(ORDERS, snapshot(1, row, ORDERS.schema_id))
    view.apply()
    assert (view.shown("n"), list(view.waiting())) == ({5: (3,)}, ['orders:{"id":3}'])
    assert "CAST_INVALID_INPUT" in view.box.causes()[0]
    view.put(ORDERS, 5, "u", id=2, note="five")
    view.put(ORDERS, 6, id=5, note="7")
    view.delete(ORDERS, 7, id=3)
    view.apply()
    assert view.shown("n") == {5: (3,), 7: (1,)}  # of what its rows were before
    assert list(view.waiting()) == ['orders:{"id":2}']
    assert list(view.retry()) == ['{"id":2}']
    view.go_back(1)  # all of it comes again
    view.apply()
    assert (view.shown("n"), len(view.box.written)) == ({5: (3,), 7: (1,)}, 2)
    view.put(ORDERS, 8, "u", id=2, note="8")
    view.apply()
    assert view.shown("n") == {5: (3,), 7: (1,)}
    assert view.retry() == {}
    assert (view.shown("n"), view.waiting()) == ({5: (2,), 7: (1,), 8: (1,)}, {})


def test_a_row_that_the_store_refuses_waits_until_the_store_takes_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MirroredView(spark, tmp_path, monkeypatch, JOINED)
    view.sink = sink = RefusingSink()
    view.restart()
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(ORDERS, 2, id=10, customer_id=1)
    view.put(ORDERS, 2, id=11, customer_id=1)
    sink.refused = {10}
    view.apply()
    assert view.shown("name") == {11: ("Ada",)}
    view.put(CUSTOMERS, 3, "u", id=1, name="Ada L.")
    view.apply()
    assert (view.shown("name"), view.waiting()) == ({11: ("Ada L.",)}, {'{"id":"10"}': []})
    sink.refused = set()
    assert view.retry() == {}
    assert (view.shown("name"), view.waiting()) == ({10: ("Ada L.",), 11: ("Ada L.",)}, {})


@pytest.mark.exhaustive
def test_more_than_the_limit_stops_the_view(view: MirroredView) -> None:
    view.limit = 2
    view.restart()
    for id_ in (10, 11):
        view.put(ORDERS, 3, "u", id=id_, customer_id=10, total=TOO_LARGE)
    view.apply()
    view.put(ORDERS, 4, id=12, customer_id=10, total=TOO_LARGE)
    with pytest.raises(ViewError, match="more than 2 keys would be parked"):
        view.apply()


@pytest.mark.exhaustive
def test_a_key_that_a_delete_frees_is_free_also_after_a_kill(view: MirroredView) -> None:
    """Before what was settled is written, and behind it."""
    for id_ in (10, 11):
        view.write(ORDERS, (f'{{"id":{id_}}}'.encode(), b"odd"))
    view.apply()
    assert sorted(view.waiting()) == ['orders:{"id":10}', 'orders:{"id":11}']
    for id_, step in ((10, "before settle"), (11, "after settle")):
        view.delete(ORDERS, id_, id=id_)
        view.box.killing = step
        with pytest.raises(KilledError):
            view.apply()
        view.box.killing = ""
        view.restart()
        view.apply()
        assert f'orders:{{"id":{id_}}}' not in view.waiting()
    assert view.waiting() == {}
    for id_ in (10, 11):
        view.put(ORDERS, 12, id=id_, customer_id=10)
    view.apply()
    assert view.shown("name") == {10: ("Ada",), 11: ("Ada",)}
