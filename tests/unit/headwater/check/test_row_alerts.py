"""What ``headwater check`` says of the receivers of alerts on rows."""

from __future__ import annotations

import pytest

from headwater.check.alerts.rows import same_receiver, unencrypted


@pytest.mark.parametrize(
    "url",
    ["https://hooks.example.com/x", "http://127.0.0.1:8080/x", "http://[::1]/", "http://localhost"],
)
def test_messages_that_nobody_between_can_read_are_no_fault(url: str) -> None:
    assert list(unencrypted("big", url)) == []


def test_messages_by_plain_http_to_another_machine_are_warned_of() -> None:
    (found,) = unencrypted("big", "http://hooks.example.com/t0ken")
    assert (found.level, found.check) == ("warning", "alert big")
    assert "hooks.example.com" in found.message
    assert "t0ken" not in found.message


def test_an_alarm_that_goes_to_who_does_not_take_messages_is_warned_of() -> None:
    (found,) = same_receiver("big", "https://a:b@hooks.example.com/x", "https://hooks.example.com/")
    assert (found.level, found.check) == ("warning", "alert big")
    assert "while it is away, nobody is told" in found.message
    for of_alarms in ("", "https://alarms.example.com/", "https://hooks.example.com:8443/"):
        assert list(same_receiver("big", "https://hooks.example.com/x", of_alarms)) == []
