"""Dead letters of alerts on rows, sent again or discarded by the command line."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.error import URLError

import pytest

from cdc.alarms.sender import Sender
from cdc.config import Alerts, Config, Kafka, RowAlert, Source
from cdc.errors import UsageError
from headwater.alerts import letters
from headwater.alerts.letters import Letter
from headwater.cli.dead_letters import row_alerts

CONFIG = Config(
    source=Source(name="shop", dsn="postgresql://nowhere", tables=("public.*",)),
    kafka=Kafka(bootstrap_servers="localhost:1"),
    alerts=Alerts(
        secret_file="secret",
        rows={"big": RowAlert(table="public.t", when="after.id = 1", webhook="http://localhost")},
    ),
)


def letter(at: int, key: str) -> Letter:
    return Letter("big", f"msg_{at}", key, f"shop.public.t-0-{at}", "answered 500", b"{}")


class Box:
    """Letters in memory, for every command of a test."""

    waiting: list[Letter]

    def __init__(self, _: Config) -> None:
        pass

    def close(self) -> None:
        """Nothing to let go of."""

    def open(self, alert: str) -> list[Letter]:
        return [one for one in Box.waiting if one.alert == alert]

    def settle(self, settled: Iterable[Letter]) -> None:
        gone = {one.id for one in settled}
        Box.waiting = [one for one in Box.waiting if one.id not in gone]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of messages that were sent; the receiver refuses ``msg_1``."""
    found: list[str] = []

    def send(_: Sender, message_id: str, body: bytes) -> None:
        assert body == b"{}"
        found.append(message_id)
        if message_id == "msg_1":
            raise URLError("refused")

    monkeypatch.setattr(letters, "LetterBox", Box)
    monkeypatch.setattr(Sender, "send", send)
    Box.waiting = [letter(1, "a"), letter(2, "a"), letter(3, "b")]
    return found


def test_messages_behind_one_that_is_refused_again_stay(sent: list[str]) -> None:
    done = row_alerts.settle(CONFIG, "retry", "alerts.big", None)
    assert (done.events, done.keys) == (1, 1)
    assert done.left == [{"key": "shop.public.t:a", "cause": "refused"}]
    assert sent == ["msg_1", "msg_3"]
    assert [one.id for one in Box.waiting] == ["msg_1", "msg_2"]


def test_some_are_discarded_without_sending_them(sent: list[str]) -> None:
    wanted = [one for one in row_alerts.entries(CONFIG, "alerts.big") if one.key == "a"]
    done = row_alerts.settle(CONFIG, "discard", "alerts.big", wanted)
    assert (done.events, done.keys, sent) == (2, 1, [])
    assert [one.id for one in Box.waiting] == ["msg_3"]


@pytest.mark.usefixtures("sent")
def test_letters_of_an_alert_that_is_not_declared_can_be_discarded_and_not_sent() -> None:
    Box.waiting = [letter(1, "a")._replace(alert="gone")]
    with pytest.raises(UsageError, match="not declared"):
        row_alerts.settle(CONFIG, "retry", "alerts.gone", None)
    assert row_alerts.settle(CONFIG, "discard", "alerts.gone", None).events == 1


@pytest.mark.usefixtures("sent")
def test_a_name_that_no_alert_has_is_refused_unless_letters_are_left_of_it() -> None:
    with pytest.raises(UsageError, match=r"there is no alert alerts\.bgi") as caught:
        row_alerts.refuse_unknown(CONFIG, "alerts.bgi", [])
    assert "alerts.big" in caught.value.hint
    row_alerts.refuse_unknown(CONFIG, "alerts.big", [])
    row_alerts.refuse_unknown(CONFIG, "alerts.gone", [row_alerts.told(letter(1, "a"))])
