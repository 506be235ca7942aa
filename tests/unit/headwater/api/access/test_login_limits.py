"""How often somebody may fail to log in."""

from __future__ import annotations

from headwater.api.access.login_limits import LoginLimits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_few_failures_are_free_then_each_doubles_the_wait() -> None:
    clock = Clock()
    limits, waits = LoginLimits(clock), []
    for _ in range(20):
        limits.failed("1.2.3.4", "alice")
        waits.append(limits.wait_s("1.2.3.4", "alice"))
    assert waits[:7] == [0, 0, 0, 0, 2, 4, 8]
    assert waits[-1] == 900
    clock.now += 901
    assert limits.wait_s("1.2.3.4", "alice") <= 0


def test_an_address_that_guesses_is_slowed_down_for_every_name_and_other_addresses_are_not() -> (
    None
):
    limits = LoginLimits(Clock())
    for i in range(10):
        limits.failed("1.2.3.4", f"user{i}")
    assert limits.wait_s("1.2.3.4", "alice") > 0
    assert limits.wait_s("5.6.7.8", "user1") == 0


def test_a_success_takes_back_what_it_was_counted_for_alone() -> None:
    limits = LoginLimits(Clock())
    for _ in range(6):
        limits.failed("1.2.3.4", "mallory")
    limits.failed("1.2.3.4", "alice")
    before = limits.wait_s("1.2.3.4", "bob")
    limits.succeeded("1.2.3.4", "alice")
    assert 0 < limits.wait_s("1.2.3.4", "bob") < before


def test_what_is_remembered_is_bounded() -> None:
    limits = LoginLimits(Clock())
    for i in range(30_000):
        limits.failed(f"address {i}", "x")
    assert len(limits._failures) <= 20_000
