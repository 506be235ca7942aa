"""What `headwater lag` says of the slot, also to a role that may not see all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from cdc.lag.slot_activity import SlotActivity
from headwater.cli.init.role_script import _watching
from headwater.cli.lag.display import _slot_lines

SEEN = SlotActivity(1_000, "1:1:", 100.0, True, 7, 0x900, 0x800, 0x700, "reserved")
HIDDEN = (
    "what was sent and the oldest transaction are hidden from this role: they need "
    "pg_read_all_stats"
)


def lines(seen: SlotActivity) -> list[str]:
    nothing = SimpleNamespace(slot_loss_s=None, disk_full_s=None)
    report = SimpleNamespace(lag=SimpleNamespace(activity=seen), forecast=nothing)
    return list(_slot_lines(cast(Any, report)))[1:]


def test_what_a_role_may_not_see_is_said_to_be_hidden() -> None:
    (seen,) = lines(SEEN)
    assert seen == "sent 0/900, confirmed 0/800, restart 0/700, walsender busy"
    dash, why = lines(SEEN._replace(sent=None, sees_others=False))
    assert dash.startswith("sent -, ")
    assert why == HIDDEN


def test_what_the_wal_sender_does_is_told() -> None:
    (waits,) = lines(SEEN._replace(wait_event="Activity/WalSenderMain"))
    assert waits.endswith("walsender Activity/WalSenderMain")
    (nobody,) = lines(SEEN._replace(pid=None))
    assert nobody.endswith("walsender none")


def test_the_right_that_shows_it_is_named_in_the_printed_sql_and_not_given() -> None:
    script = list(_watching("Head Water"))
    assert all(line.lstrip("\n").startswith("--") for line in script)
    assert script[-1] == '--   GRANT pg_read_all_stats TO "Head Water";'
