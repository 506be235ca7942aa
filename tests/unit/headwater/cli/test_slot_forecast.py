"""How long a slot lives, from two looks at it."""

from __future__ import annotations

from math import inf

from headwater.cli.snapshot.slot_forecast import loss_s
from tests.unit.cdc.lag.test_report import SLOT

LOOK = SLOT._replace(safe_wal_size=9_000)


def test_a_slot_lives_as_long_as_what_is_safe_lasts_at_the_rate_of_wal() -> None:
    later = LOOK._replace(wal_end=LOOK.wal_end + 300, clock_s=LOOK.clock_s + 3, safe_wal_size=8_000)
    assert loss_s(LOOK, later) == 80.0
    assert loss_s(LOOK, later._replace(safe_wal_size=-5)) == 0.0


def test_a_slot_without_a_limit_or_of_a_source_that_is_quiet_is_never_lost() -> None:
    later = LOOK._replace(clock_s=LOOK.clock_s + 3)
    assert loss_s(LOOK, later) == inf
    assert loss_s(LOOK, later._replace(wal_end=LOOK.wal_end + 9, safe_wal_size=None)) == inf
