"""When WAL that a slot retains has no more room: in the slot, and on its volume. Pure.

Both are counted in bytes that may still be written: until ``max_slot_wal_keep_size``, which costs
the slot, and until the volume is full, which stops the source.
"""

from __future__ import annotations

from typing import NamedTuple

from cdc.lag.slot_activity import SlotActivity


class WalForecast(NamedTuple):
    """In seconds from now; None where it is not known, and of what does not come."""

    slot_loss_s: float | None = None
    disk_full_s: float | None = None

    @property
    def first(self) -> tuple[float, str] | None:
        """What comes first: when, and in words."""
        ends = (self.slot_loss_s, "the slot is lost"), (self.disk_full_s, "the WAL volume is full")
        return min(((at, what) for at, what in ends if at is not None), default=None)


def wal_forecast(seen: SlotActivity, growth: float | None) -> WalForecast:
    """If retained WAL grows by ``growth`` bytes in a second from now on; None: nobody knows."""
    return WalForecast(
        _until_none(seen.safe_wal_size, growth), _until_none(seen.volume_free_bytes, growth)
    )


def written(first: SlotActivity, second: SlotActivity) -> float | None:
    """By how many bytes a second WAL grew between two looks; None where no time has passed."""
    seconds = second.clock_s - first.clock_s
    return (second.wal_end - first.wal_end) / seconds if seconds > 0 else None


def _until_none(room: int | None, growth: float | None) -> float | None:
    if room is None:
        return None
    if room <= 0:
        return 0.0
    return room / growth if growth is not None and growth > 0 else None
