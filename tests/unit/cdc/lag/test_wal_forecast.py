"""How long WAL has room in the slot and on its volume."""

from __future__ import annotations

import pytest

from cdc.lag.slot_activity import SlotActivity
from cdc.lag.wal_forecast import WalForecast, wal_forecast, written
from tests.unit.cdc.lag.test_report import SLOT

LIMITED = SLOT._replace(safe_wal_size=9_000)
_ROOMY = SLOT._replace(volume_free_bytes=6_000)


@pytest.mark.parametrize(
    ("seen", "growth", "slot_loss_s", "disk_full_s", "first"),
    [
        (LIMITED, 100.0, 90.0, None, (90.0, "the slot is lost")),
        (LIMITED._replace(safe_wal_size=-5), None, 0.0, None, (0.0, "the slot is lost")),
        (_ROOMY, 100.0, None, 60.0, (60.0, "the WAL volume is full")),
        (_ROOMY._replace(volume_free_bytes=0), 0.0, None, 0.0, (0.0, "the WAL volume is full")),
        (LIMITED._replace(volume_free_bytes=6_000), 100.0, 90.0, 60.0,
         (60.0, "the WAL volume is full")),
        (LIMITED._replace(volume_free_bytes=60_000), 100.0, 90.0, 600.0,
         (90.0, "the slot is lost")),
        (LIMITED._replace(volume_free_bytes=6_000), 0.0, None, None, None),
        (LIMITED._replace(volume_free_bytes=6_000), -7.0, None, None, None),
        (LIMITED._replace(volume_free_bytes=6_000), None, None, None, None),
        (SLOT, 100.0, None, None, None),
    ],
)  # fmt: skip
def test_wal_lasts_as_long_as_its_room_at_the_rate_at_which_it_grows(
    seen: SlotActivity,
    growth: float | None,
    slot_loss_s: float | None,
    disk_full_s: float | None,
    first: tuple[float, str] | None,
) -> None:
    found = wal_forecast(seen, growth)
    assert found == WalForecast(slot_loss_s, disk_full_s)
    assert found.first == first


def test_the_rate_of_wal_is_that_between_two_looks() -> None:
    later = SLOT._replace(wal_end=SLOT.wal_end + 300, clock_s=SLOT.clock_s + 3)
    assert written(SLOT, later) == 100.0
    assert written(SLOT, SLOT) is None


@pytest.mark.parametrize(
    ("free", "declared", "size", "left"),
    [
        (None, None, None, None),
        (50, None, 80, 50),
        (None, 1_000, 1_000, 900),
        (50, 1_000, 1_000, 50),
        (5_000, 1_000, 1_000, 900),
        (5_000, 60, 60, 0),
    ],
)
def test_of_a_declared_volume_is_free_what_retained_wal_leaves_at_most(
    free: int | None, declared: int | None, size: int | None, left: int | None
) -> None:
    known = SLOT._replace(volume_bytes=None if free is None else 80, volume_free_bytes=free)
    assert known.retained_bytes == 100
    found = known.on_volume(declared)
    assert (found.volume_bytes, found.volume_free_bytes) == (size, left)


def test_of_a_volume_without_a_slot_nobody_knows_what_is_free_but_who_looks_at_it() -> None:
    gone = SLOT._replace(exists=False, restart=None)
    assert gone.on_volume(1_000).volume_free_bytes is None
    assert gone._replace(volume_free_bytes=7).on_volume(1_000).volume_free_bytes == 7
