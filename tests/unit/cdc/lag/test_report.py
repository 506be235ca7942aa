"""What measurements mean: states, lag over both hops, the heartbeat of the whole way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.lag.measure import CaptureLag, Lag, PartitionLag
from cdc.lag.report import Assessor, Block, Report
from cdc.lag.slot_activity import SlotActivity
from cdc.lag.states import State

TOPIC = "shop.public.orders"
SLOT = SlotActivity(1_000, "1:1:", 100.0, True, 7, 900, 1_000, 900, "reserved")


def partition(number: int = 0, at: int | None = 5, end: int = 5, **more: Any) -> PartitionLag:
    behind = end - (at or 0)
    base = PartitionLag("v", TOPIC, number, at, end, behind, 0, 0.0, 0)
    return replace(base, **more)


def lag(*views: PartitionLag, at_s: float = 100.0, slot: SlotActivity = SLOT, **more: Any) -> Lag:
    active = slot.pid is not None
    capture = CaptureLag("s", active, slot.unconfirmed_bytes, slot.retained_bytes, slot)
    base = Lag(slot.wal_end, 999, capture, views, at_s, at_s - 1, at_s - 1, {TOPIC: {0: 5, 1: 5}})
    return replace(base, **more)


def view_of(report: Report) -> State:
    return report.views[0].state


def test_nothing_to_do_is_idle() -> None:
    report = Assessor(10.0).report(lag(partition(), partition(1)))
    assert (report.capture.state, view_of(report)) == (State.IDLE, State.IDLE)
    assert (report.capture.lag_s, report.views[0].lag_s) == (0.0, 0.0)
    assert report.views[0].heartbeat_s == 99.0, "the view has all that the mark says"


def test_a_view_is_as_late_as_its_worst_partition_and_one_line_tells_it() -> None:
    late = partition(1, 5, 9, behind_s=12.0, in_kafka_s=11.0)
    report = Assessor(10.0).report(lag(partition(0, 4, 5, behind_s=0.4), late))
    (view,) = report.views
    assert view.worst == late
    assert (view.behind_records, view.lag_s, view.in_kafka_s) == (5, 12.0, 11.0)
    assert view.states == (State.FRESH, State.CATCHING_UP)
    assert view.state == State.CATCHING_UP


def test_what_capture_has_not_read_is_lag_of_every_view() -> None:
    assessor = Assessor(10.0)
    assessor.report(lag(partition()))
    ahead = SLOT._replace(wal_end=2_000, transactions="2:2:")
    report = assessor.report(lag(partition(), at_s=104.0, slot=ahead, heartbeat_s=99.0))
    assert report.capture.lag_s == 4.0, "since the look that Kafka covers"
    assert (report.views[0].lag_s, report.views[0].in_kafka_s) == (4.0, 0.0)
    assert view_of(report) == State.FRESH
    report = assessor.report(
        lag(partition(), at_s=131.0, slot=ahead, heartbeat_s=99.0, marked_s=100.5)
    )
    assert (report.views[0].lag_s, view_of(report)) == (31.0, State.SOURCE_UNKNOWN)


def test_a_source_without_heartbeats_is_known_while_nothing_is_missing() -> None:
    assessor = Assessor(0.0)
    report = assessor.report(lag(partition(), heartbeat_s=None, marked_s=1.0))
    assert view_of(report) == State.IDLE
    ahead = SLOT._replace(wal_end=2_000, transactions="2:2:")
    more: dict[str, Any] = {"slot": ahead, "heartbeat_s": None, "marked_s": 1.0}
    assert view_of(assessor.report(lag(partition(), at_s=131.0, **more))) == State.SOURCE_UNKNOWN


def test_work_that_does_not_move_has_stalled_after_half_a_minute() -> None:
    assessor = Assessor(10.0)
    states = []
    for second in range(0, 45, 5):
        waiting = partition(
            0, 5, 9, behind_s=float(second), in_kafka_s=float(second), moved_s=100.0
        )
        states.append(view_of(assessor.report(lag(waiting, at_s=100.0 + second))))
    assert states[1] == State.FRESH
    assert states[4:7] == [State.FALLING_BACK] * 3
    assert states[7:] == [State.STALLED] * 2


def test_a_view_that_was_idle_for_long_has_not_stalled_with_its_first_change() -> None:
    waiting = partition(0, 5, 6, behind_s=0.2, in_kafka_s=0.1, moved_s=1.0)
    assert view_of(Assessor(10.0).report(lag(waiting, at_s=9_000.0))) == State.FRESH


@pytest.mark.parametrize(
    ("views", "faults", "state"),
    [
        ([partition(at=None, end=9)], {}, State.NO_DATA),
        ([partition(at=None, end=9)], {"v": Block("not applied", "nobody")}, State.BLOCKED),
        ([partition()], {"v": Block("stopped", "disk full")}, State.BLOCKED),
        ([partition(lost_records=3)], {}, State.BLOCKED),
        ([partition()], {"w": Block("stopped", "disk full")}, State.IDLE),
    ],
)
def test_what_blocks_a_view_comes_first(
    views: list[PartitionLag], faults: dict[str, Block], state: State
) -> None:
    assert view_of(Assessor(10.0).report(lag(*views), faults)) == state


@pytest.mark.parametrize(
    ("slot", "cause"),
    [
        (SLOT._replace(exists=False, pid=None, confirmed=None, restart=None), "no slot"),
        (SLOT._replace(wal_status="lost"), "slot lost"),
        (SLOT._replace(pid=None), "not running"),
    ],
)
def test_what_blocks_capture_is_named(slot: SlotActivity, cause: str) -> None:
    capture = Assessor(10.0).report(lag(slot=slot)).capture
    assert capture.state == State.BLOCKED
    assert capture.blocked_by is not None
    assert capture.blocked_by.cause == cause


def test_a_source_that_does_not_answer_is_unknown() -> None:
    away = CaptureLag("s", False, None, None)
    report = Assessor(10.0).report(replace(lag(partition()), capture=away))
    assert report.capture.state == State.SOURCE_UNKNOWN


def test_a_heartbeat_is_passed_when_all_that_its_mark_covers_is_applied() -> None:
    assessor = Assessor(10.0)
    marks = {TOPIC: {0: 5, 1: 6}}
    passed = [
        assessor.report(lag(partition(at=at), partition(1, other, 9), at_s=at_s,
                            heartbeat_s=beat, marked_offsets=marks)).views[0].heartbeat_s
        for at, other, at_s, beat in ((4, 5, 100.0, 95.0), (5, 5, 101.0, 95.0),
                                      (5, 5, 102.0, 101.0), (5, 6, 103.0, 101.0))
    ]  # fmt: skip
    assert passed == [None, None, None, 101.0]


def test_the_loss_of_the_slot_is_forecast_while_what_it_retains_grows() -> None:
    assessor = Assessor(10.0)

    def loss_s(at_s: float, wal_end: int, restart: int, safe: int | None) -> float | None:
        slot = SLOT._replace(wal_end=wal_end, restart=restart, safe_wal_size=safe)
        return assessor.report(lag(at_s=at_s, slot=slot)).capture.forecast.slot_loss_s

    assert loss_s(100.0, 1_000, 900, 5_000) is None
    assert loss_s(110.0, 2_000, 900, 4_000) is None, "restart_lsn moves in steps"
    assert loss_s(140.0, 5_000, 900, 1_000) == pytest.approx(10.0)
    assert loss_s(150.0, 5_000, 5_000, 5_000) is None, "capture has caught up"
    assert loss_s(160.0, 5_100, 5_000, None) is None, "without a limit"
    assert loss_s(170.0, 5_100, 5_000, -3) == 0.0


def test_a_full_volume_is_forecast_also_of_a_slot_without_a_limit() -> None:
    assessor = Assessor(10.0)

    def full_s(at_s: float, wal_end: int, free: int | None, **more: Any) -> float | None:
        slot = SLOT._replace(wal_end=wal_end, restart=900, volume_free_bytes=free, **more)
        forecast = assessor.report(lag(at_s=at_s, slot=slot)).capture.forecast
        assert forecast.slot_loss_s is None
        return forecast.disk_full_s

    assert full_s(100.0, 1_000, 9_000) is None
    assert full_s(110.0, 2_000, 8_000) is None, "restart_lsn moves in steps"
    assert full_s(112.0, 2_200, 8_000, pid=None) == pytest.approx(80.0), "it stands: nobody reads"
    assert full_s(140.0, 5_000, 5_000) == pytest.approx(50.0)
    assert full_s(141.0, 5_100, None) is None, "nobody knows what is free"
    assert full_s(142.0, 5_200, 0) == 0.0


def test_a_long_transaction_has_not_stalled_while_its_records_are_acknowledged() -> None:
    """Marks come only at its end, and heartbeats behind it."""
    ahead = SLOT._replace(wal_end=2_000, transactions="2:2:")
    long: dict[str, Any] = {"at_s": 300.0, "slot": ahead, "heartbeat_s": 99.0, "marked_s": 99.0}
    states = []
    for moved_s in (299.0, 200.0):
        assessor = Assessor(10.0)
        assessor.report(lag(partition()))
        states.append(assessor.report(lag(partition(), moved_s=moved_s, **long)).capture.state)
    assert states == [State.FALLING_BACK, State.STALLED]
