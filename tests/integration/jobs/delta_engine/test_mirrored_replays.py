"""Views over several tables whose stream begins again: their store is as the mirrors say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from cdc.errors import ViewError
from cdc.events.codes import PLACEHOLDER
from cdc.lsn import Position
from jobs.delta_engine.mirrors.attempts import Attempts, read_attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from tests.support.views.mirrored_view import CUSTOMERS, ORDERS, MirroredView, held, version
from tests.support.views.parked_view import KilledError
from views.types import INT4, TEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPED = """
    select c.name, count(*) as n, sum(o.total) as total
    from orders o join customers c on c.id = o.customer_id where c.name is not null group by c.name
"""
SHARES = version("shares", id=INT4, parts=INT4)
WORTH = """
    select o.id, o.total from orders o join shares s on s.id = o.customer_id
    where o.total / s.parts > 1
"""
NUMBERED = "select coalesce(o.note::int, 0) as id, count(*) as n from orders o group by 1"


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirroredView:
    made = MirroredView(spark, tmp_path, monkeypatch)
    made.restart()
    return made


def begun(view: MirroredView, at_once: bool = False) -> None:
    """Three batches, of inserts, updates and deletes, or one that has all of them."""
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(CUSTOMERS, 1, id=2, name="Bob")
    for id_ in (10, 11, 12):
        view.put(ORDERS, 2, id=id_, customer_id=1, total=1)
    if not at_once:
        view.apply()
    view.put(ORDERS, 3, "u", id=10, customer_id=2, total=5)
    view.delete(ORDERS, 4, id=11)
    if not at_once:
        view.apply()
    view.put(CUSTOMERS, 5, "u", id=2, name="Bob B.")
    view.put(ORDERS, 6, id=13, customer_id=2, total=3)
    view.apply()


@pytest.mark.exhaustive
def test_a_store_that_lost_or_bent_rows_or_was_set_back_has_them_as_they_are(
    view: MirroredView, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An older copy of the state is refused, also during another replay."""
    begun(view)
    appended: list[int] = []
    monkeypatch.setattr(Mirror, "append", lambda *_: appended.append(1))
    wanted = held(view)
    bent = {"id": 10, "total": -1, "note": None, "name": "by hand"}
    view.sink.rows = {
        (10,): (Position(6, 2), bent),
        (11,): (Position(2, 1), {**bent, "id": 11}),  # it comes back
        (12,): (Position(2, 1), {**bent, "id": 12}),
        (99,): (Position(1, 1), {**bent, "id": 99}),  # no record has ever made it; 13 is lost
    }
    view.replay(view.ends[1])
    view.apply()
    assert held(view) == wanted
    assert appended == []
    view.group = view.end()  # what it ever was at: beside where it went back to
    view.replay()
    file = tmp_path / "v" / "mirrors" / "attempts.json"
    file.write_text(file.read_text().replace('"1": 3', '"1": 2').replace('"0": 3', '"0": 2'))
    with pytest.raises(ViewError, match="the state is an older copy"):
        view.restart()


def test_what_comes_again_together_with_news_is_right_also_when_it_was_killed(
    view: MirroredView, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "jobs.delta_engine.mirrors.mirror._FEW", -1
    )  # mirrors forget older versions
    begun(view)
    first = view.ends[0]
    view.sink.rows.clear()
    view.replay(first)
    view.put(ORDERS, 7, "u", id=12, customer_id=2, total=9)
    view.delete(ORDERS, 8, id=10)
    before = read_attempts(tmp_path / "v" / "mirrors").offsets
    for end in (view.ends[1], view.end()):
        with monkeypatch.context() as patched:
            killed = KilledError("behind the store's write")
            patched.setattr(Attempts, "done", Mock(side_effect=killed))
            with pytest.raises(KilledError):
                view.apply(end)
        assert read_attempts(tmp_path / "v" / "mirrors").offsets == before
        view.restart()
        view.apply(end)
        after = read_attempts(tmp_path / "v" / "mirrors").offsets
        assert all(at >= before[t][p] for t, of in after.items() for p, at in of.items())
        before = after
    # 12 is news, 13 came again; the others came before the place
    assert view.shown("name", "total") == {12: ("Bob B.", 9), 13: ("Bob B.", 3)}
    view.replay()
    view.replay(first)  # a later place within it: the first is not done
    view.apply()
    assert view.shown("name", "total") == {12: ("Bob B.", 9), 13: ("Bob B.", 3)}
    assert before == read_attempts(tmp_path / "v" / "mirrors").offsets == view.end()


def test_groups_that_rows_have_left_are_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MirroredView(spark, tmp_path, monkeypatch, GROUPED, key=("name",))
    view.restart()
    begun(view)
    wanted = held(view)
    assert wanted == {("Ada",): {"name": "Ada", "n": 1, "total": 1},
                      ("Bob B.",): {"name": "Bob B.", "n": 2, "total": 8}}  # fmt: skip
    stale = {("Ada",): {"name": "Ada", "n": 3, "total": 3}, ("Bob",): {"name": "Bob", "n": 1}}
    view.sink.rows = {key: (Position(2, 1), row) for key, row in stale.items()}
    view.replay(view.ends[1])  # Bob was called so before
    view.apply()
    assert held(view) == wanted


def test_what_is_parked_stays_so_and_no_letter_is_written_twice(view: MirroredView) -> None:
    begun(view, at_once=True)
    view.put(ORDERS, 7, "u", id=12, customer_id=2, total=2**40)
    view.put(ORDERS, 8, "u", id=13, customer_id=2, total=3, note=PLACEHOLDER)
    view.write(CUSTOMERS, (b'{"id":1}', b"odd"))
    view.apply()
    view.put(ORDERS, 9, "u", id=12, customer_id=1, total=2)
    view.apply()
    wanted, waiting, written = held(view), view.waiting(), list(view.box.written)
    assert sorted(waiting) == ['customers:{"id":1}', 'orders:{"id":12}']
    view.sink.rows.clear()
    view.replay()
    view.apply()
    assert (view.waiting(), view.box.written) == (waiting, written)
    assert held(view) == wanted


@pytest.mark.exhaustive
def test_what_was_parked_and_applied_later_comes_again_as_all_else(view: MirroredView) -> None:
    newer = version("orders", id=INT4, customer_id=INT4, total=INT4, note=TEXT, more=INT4)
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(ORDERS, 2, id=10, customer_id=1, total=1)
    view.apply()
    view.put(newer, 3, id=11, customer_id=1, total=2)
    view.apply()
    assert list(view.waiting()) == ['orders:{"id":11}']
    view.describe(newer)
    assert view.retry() == {}
    view.restart()
    wanted = held(view)
    assert sorted(wanted) == [(10,), (11,)]
    view.sink.rows.pop((11,))
    view.replay(view.ends[0])  # nothing else comes again
    view.apply()
    assert held(view) == wanted


@pytest.mark.exhaustive
def test_an_image_without_a_key_in_the_view_is_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MirroredView(spark, tmp_path, monkeypatch, NUMBERED, key=("id",), tables=(ORDERS,))
    view.restart()
    for id_, note in enumerate(["5", "6", "six", "5"], 1):
        view.put(ORDERS, 1, id=id_, note=note)
    view.put(ORDERS, 2, "u", id=4, note="four")
    view.put(ORDERS, 3, "u", id=4, note="4")
    view.apply()
    wanted = held(view)
    assert list(view.waiting()) == ['orders:{"id":3}']
    view.sink.rows.clear()
    view.replay()
    view.apply()
    assert held(view) == wanted
    assert view.shown("n") == {4: (1,), 5: (1,), 6: (1,)}


@pytest.mark.exhaustive
def test_a_row_that_a_condition_fails_for_waits_and_all_others_are_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MirroredView(spark, tmp_path, monkeypatch, WORTH, tables=(ORDERS, SHARES))
    view.restart()
    view.put(SHARES, 1, id=1, parts=2)
    view.put(SHARES, 1, id=2, parts=0)
    for id_ in range(10, 14):
        view.put(ORDERS, 2, id=id_, customer_id=1, total=8)
    view.apply()
    view.put(ORDERS, 3, "u", id=12, customer_id=2, total=8)
    view.put(ORDERS, 3, "u", id=13, customer_id=1, total=1)
    view.apply()
    waiting = view.waiting()
    assert waiting == {'{"id":"12"}': []}
    view.sink.rows = {(99,): (Position(1, 1), {"id": 99, "total": 8})}
    view.replay()
    view.apply()
    assert view.shown("total") == {10: (8,), 11: (8,)}
    assert view.waiting() == waiting


@pytest.mark.exhaustive
def test_rows_made_anew_at_an_lsn_stand_below_what_comes_later_whatever_is_killed(
    view: MirroredView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `verify --repair` makes them: the LSN may be above those of changes that were applied."""
    begun(view, at_once=True)
    wanted, bent = held(view), {"id": 10, "total": -1, "note": None, "name": "by hand"}
    for id_ in (10, 99):
        view.sink.rows[id_,] = Position(50, 1), {**bent, "id": id_}
    view.sink.rows.pop((12,))
    keys = [{"id": id_} for id_ in (10, 12, 99)]
    with monkeypatch.context() as patched:
        patched.setattr(Attempts, "done", Mock(side_effect=KilledError("behind the store's write")))
        with pytest.raises(KilledError):
            view.keeper.make_anew(keys, 60)
    view.restart()
    view.keeper.make_anew(keys, 60)
    assert held(view) == wanted
    view.put(ORDERS, 61, "u", id=10, customer_id=1, total=6)
    view.restart()
    view.apply()
    assert view.shown("name", "total")[10] == ("Ada", 6)
