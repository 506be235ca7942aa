"""What was applied comes again: views over mirrors stay as they are, and deletes stay deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from cdc.errors import ViewError
from cdc.events.codes import PLACEHOLDER
from jobs.delta_engine.mirrors.attempts import Attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from tests.support.events.events import snapshot, truncate
from tests.support.views.mirrored_view import CUSTOMERS, ORDERS, MirroredView
from tests.support.views.parked_view import KilledError
from tests.support.views.recording_sink import RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirroredView:
    monkeypatch.setattr(
        "jobs.delta_engine.mirrors.mirror._FEW", -1
    )  # each batch ends with mirrors made anew
    made = MirroredView(spark, tmp_path, monkeypatch)
    made.restart()
    return made


@pytest.mark.exhaustive
def test_a_replay_across_a_mirror_written_anew_takes_no_deleted_row_back(
    view: MirroredView, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(ORDERS, 2, id=10, customer_id=1)
    view.put(ORDERS, 2, id=11, customer_id=1)
    view.apply()
    view.delete(ORDERS, 3, id=10)
    view.put(CUSTOMERS, 4, "u", id=1, name="Ada L.")
    view.apply()
    view.write(CUSTOMERS, truncate(5, 1, CUSTOMERS.schema_id))
    view.apply()
    written = view.sink.rows.copy()
    appended: list[int] = []
    monkeypatch.setattr(Mirror, "append", lambda *_: appended.append(1))
    view.go_back(0)
    for _ in range(2):  # whatever company it comes in
        view.apply()
    assert view.sink.rows == written
    assert appended == []


@pytest.mark.exhaustive
def test_what_a_killed_attempt_gave_the_store_is_made_anew_though_it_was_undone(
    view: MirroredView, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(CUSTOMERS, 1, id=2, name="Bob")
    view.put(ORDERS, 2, id=10, customer_id=1)
    view.apply()
    view.put(ORDERS, 3, "u", id=10, customer_id=2)
    with monkeypatch.context() as patched:
        killed = KilledError("behind the store's write")
        patched.setattr(Attempts, "done", Mock(side_effect=killed))
        with pytest.raises(KilledError):
            view.apply()
    assert view.shown("name") == {10: ("Bob",)}
    view.put(ORDERS, 4, "u", id=10, customer_id=1)
    view.restart()
    view.apply()
    assert view.shown("name") == {10: ("Ada",)}


def test_a_late_row_of_a_snapshot_has_no_say_on_what_updates_leave_out(view: MirroredView) -> None:
    """Nor does one that stands behind its delete come back. As `table add` may write them: orders
    10 to 12 were read at 5, and published when 6 to 9 were; 20 and 21 at 50."""
    view.put(CUSTOMERS, 9, id=2, name="Bob")
    view.delete(ORDERS, 7, id=10)
    view.put(ORDERS, 8, id=12, customer_id=2)
    view.put(ORDERS, 90, "u", id=20, note="of 90")
    view.apply()
    for id_ in (10, 11, 12):
        row = {"id": id_, "customer_id": 2, "total": None, "note": "read"}
        view.write(ORDERS, snapshot(5, row, ORDERS.schema_id))
    for id_ in (20, 21):
        row = {"id": id_, "customer_id": None, "total": None, "note": "of 50"}
        view.write(ORDERS, snapshot(50, row, ORDERS.schema_id))
        view.put(ORDERS, 100, "u", id=id_, total=1, note=PLACEHOLDER)
    view.apply()
    assert view.shown("total", "name", "note") == {
        11: (None, "Bob", "read"), 12: (None, "Bob", None),
        20: (1, None, "of 90"), 21: (1, None, "of 50"),
    }  # fmt: skip


def test_mirrors_that_are_older_than_the_checkpoint_are_refused(
    view: MirroredView, tmp_path: Path
) -> None:
    view.put(ORDERS, 1, id=10)
    view.apply()
    attempts = tmp_path / "v" / "mirrors" / "attempts.json"
    older = attempts.read_text()
    view.put(ORDERS, 2, id=11)
    view.apply()
    attempts.write_text(older)
    view.put(ORDERS, 3, id=12)
    with pytest.raises(ViewError, match=r"would be lost\. Run `headwater view rebuild v`"):
        view.apply()


@pytest.mark.exhaustive
def test_a_store_that_is_gone_is_missed_also_when_there_is_one_again(view: MirroredView) -> None:
    view.put(ORDERS, 1, id=10)
    view.apply()
    view.sink = RecordingSink()
    for _ in range(2):  # the second time it is there, and empty
        with pytest.raises(ViewError, match="no longer holds the changes"):
            view.restart()


@pytest.mark.exhaustive
def test_mirrors_and_the_state_that_are_gone_are_missed(view: MirroredView) -> None:
    """Without the state, what was deleted since would stay: it comes and goes in the batch that
    begins anew."""
    view.put(ORDERS, 1, id=10)
    view.put(ORDERS, 1, id=11)
    view.apply()
    view.forget()
    with pytest.raises(
        ViewError, match=r"it is computed, was deleted\. Run `headwater view rebuild v`"
    ):
        view.restart()
    view.forget_all()
    view.delete(ORDERS, 2, id=10)
    for _ in range(2):
        with pytest.raises(ViewError, match=r"has no state of them.*`headwater view create v`"):
            view.restart()
    view.sink = RecordingSink()  # a store that is new is filled from the beginning
    view.restart()
    view.apply()
    assert view.sink.values().keys() == {11}
