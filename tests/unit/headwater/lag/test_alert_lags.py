"""How alerts on rows are, by what Kafka and the state database tell."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from rich.console import Console

from cdc.config import Alerts, Config, Kafka, Redis, RowAlert, Source, View
from cdc.errors import LogError, RetryableError
from cdc.kafka.broker import Broker, Commit
from cdc.lag.measure import PartitionLag
from cdc.lag.report import Assessor
from cdc.lag.states import State
from cdc.lag.view_lags import Moment
from headwater.cli.lag.display import table
from headwater.lag import alert_lags
from headwater.lag.alert_lags import AlertReport, AlertWatch
from headwater.lag.alert_letters import LetterCounts
from headwater.lag.document import document
from headwater.lag.watch import Seen
from jobs.state.feeds.alert_places import AlertStand
from tests.unit.cdc.lag.test_report import lag, partition

LETTERS = "shop.__alert_dead_letters"
TOPIC = "shop.public.orders"
MOMENT = Moment(1_000, 1_000, 100.0)
STAND = AlertStand(7, 2, 3, 88.0, "95000:2:9:", 99.0, True)


def config(**more: RowAlert) -> Config:
    def alert(**of: str) -> RowAlert:
        settings = {"when": "after.id = 1", "webhook": "http://127.0.0.1:9", **of}
        return RowAlert.model_validate(settings)

    return Config(
        source=Source(name="shop", dsn="postgresql://nowhere", tables=("public.*",)),
        kafka=Kafka(bootstrap_servers="localhost:1"),
        stores={"cache": Redis(kind="redis", url="redis://localhost:1")},
        views={"v": View(store="cache", key=("id",), sql="select", change_stream=True)},
        alerts=Alerts(
            secret_file="secret",
            rows={"big": alert(table="public.orders"), "risen": alert(view="v"), **more},
        ),
    )


class Kafka4:
    """Dead letters, and a group: whether it has members, and what was noted with its offsets."""

    def __init__(self) -> None:
        self.letters: list[tuple[bytes, bytes | None]] = []
        self.has_members, self.note, self.other_note = True, "96000:1:5:", "90000:4:5:"
        self.reads: list[int] = []

    def active_groups(self, groups: list[str]) -> list[str]:
        assert groups == ["headwater.shop.__alerts.big"]
        return groups if self.has_members else []

    def commits(self, _: str, topics: list[str]) -> dict[tuple[str, int], Commit]:
        assert topics == [TOPIC]
        notes = (self.note, self.other_note)
        return {(TOPIC, p): Commit(5, 99.0, note) for p, note in enumerate(notes)}

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1) if self.letters else {}

    def beginning_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 0} for topic in topics}

    def end_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: len(self.letters)} for topic in topics}

    def read(self, topic: str, _: int, begin: int, end: int) -> Iterator[Any]:
        assert topic == LETTERS
        self.reads.append(end - begin)
        for key, value in self.letters[begin:end]:
            yield SimpleNamespace(key=key, value=value)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka4:
    """A table that is done, and a view of which a look says what ``STAND`` does."""
    measured(monkeypatch, partition(view="big"))
    stands(monkeypatch, STAND)
    monkeypatch.setattr(alert_lags, "_FACTS_S", 0.0)
    return Kafka4()


def measured(monkeypatch: pytest.MonkeyPatch, *found: PartitionLag) -> None:
    monkeypatch.setattr(alert_lags, "view_lags", lambda *_: (list(found), {}))


def stands(monkeypatch: pytest.MonkeyPatch, stand: AlertStand | None) -> None:
    """What the state database says; None where it does not run."""

    @contextmanager
    def session(_: Config) -> Iterator[object]:
        yield stand

    monkeypatch.setattr(alert_lags, "state_session", session)
    monkeypatch.setattr(alert_lags, "alert_stand", lambda *_: stand)


def look(kafka: Kafka4, *views: PartitionLag) -> tuple[AlertReport, AlertReport]:
    watch = AlertWatch(config(), cast(Broker, kafka))
    big, risen = watch.look(lag(*views), MOMENT, orjson.loads, {})
    return big, risen


def test_an_alert_is_measured_as_a_view_is(kafka: Kafka4, monkeypatch: pytest.MonkeyPatch) -> None:
    big, _ = look(kafka)
    assert (big.state, big.of, big.lag_s, big.behind_records) == (
        State.IDLE, "public.orders", 0.0, 0,
    )  # fmt: skip
    assert (big.waiting, big.delivered_s, big.dead_letters) == (5, 96.0, 0)
    late = partition(0, 5, 9, view="big", behind_s=45.0, in_kafka_s=44.0)
    measured(monkeypatch, late)
    big, _ = look(kafka)
    assert (big.lag_s, big.behind_records, big.undelivered_s) == (45.0, 4, 44.0)
    assert big.state == State.CATCHING_UP, "a message was taken 4 s ago"
    for taken_ms in (60_000, 0):
        kafka.note = kafka.other_note = f"{taken_ms}:1:5:"
        big, _ = look(kafka)
        assert big.state == State.STALLED, "messages wait, and none was taken for 40 s, or ever"
    kafka.note = kafka.other_note = "60000:0:5:"
    big, _ = look(kafka)
    assert big.state == State.CATCHING_UP, "none waits: it reads"


def test_over_a_view_what_the_view_lacks_is_behind_too(kafka: Kafka4) -> None:
    _, risen = look(kafka, partition())
    assert (risen.of, risen.lag_s, risen.behind_records) == ("v", 12.0, 3)
    assert (risen.waiting, risen.delivered_s) == (2, 95.0)
    late = partition(0, 4, 9, behind_s=60.0)
    _, risen = look(kafka, late)
    assert (risen.lag_s, risen.behind_records) == (60.0, 8)
    assert risen.undelivered_s == 12.0, "what the view lacks nobody can deliver"


def test_what_is_not_known_is_no_data_and_says_why(
    kafka: Kafka4, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, None)
    _, risen = look(kafka, partition())
    assert (risen.state, risen.lag_s) == (State.NO_DATA, None)
    assert risen.problem == "the state database does not run here"
    stands(monkeypatch, STAND._replace(number=None, behind=0, oldest_s=None))
    _, risen = look(kafka, partition())
    assert risen.state == State.NO_DATA, "it has not begun"

    def away(*_: object) -> None:
        raise RetryableError("Kafka does not answer")

    monkeypatch.setattr(alert_lags, "view_lags", away)
    for one in look(kafka):
        assert (one.state, one.problem) == (State.NO_DATA, "Kafka does not answer")


def test_one_whose_view_is_not_measured_is_not_taken_for_done(
    kafka: Kafka4, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(monkeypatch, STAND._replace(behind=0, oldest_s=None))
    watch = AlertWatch(config(), cast(Broker, kafka))
    foreign = LogError("a record that Headwater has not written")
    _, risen = watch.look(lag(), MOMENT, orjson.loads, {"v": foreign})
    assert (risen.state, risen.lag_s, risen.behind_records) == (State.NO_DATA, None, None)
    assert risen.problem == foreign.message


def test_one_whose_log_is_gone_hides_no_other(
    kafka: Kafka4, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(_: object, __: str, name: str) -> AlertStand:
        if name == "gone":
            raise LogError("its generation has been dropped")
        return STAND

    declared = config(gone=config().alerts.rows["risen"], risen=config().alerts.rows["risen"])
    monkeypatch.setattr(alert_lags, "alert_stand", looked)
    watch = AlertWatch(declared, cast(Broker, kafka))
    found = {one.alert: one for one in watch.look(lag(partition()), MOMENT, orjson.loads, {})}
    assert (found["risen"].lag_s, found["risen"].problem) == (12.0, "")
    gone = found["gone"]
    assert (gone.state, gone.blocked_by) == (State.BLOCKED, "its generation has been dropped")


def test_without_a_note_nobody_knows_what_waits_and_when_one_was_delivered(
    kafka: Kafka4, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.note = ""
    big, _ = look(kafka, partition())
    assert (big.waiting, big.delivered_s) == (4, 90.0), "of the partition that has one"
    kafka.other_note = ""
    stands(monkeypatch, STAND._replace(note=""))
    alerts = look(kafka, partition())
    assert {(one.waiting, one.delivered_s) for one in alerts} == {(None, None)}
    seen = Seen(Assessor(10.0).report(lag(partition())), {}, {}, alerts=alerts)
    assert [one["waiting_messages"] for one in document(seen)["alerts"]] == [None, None]
    assert shown(seen).count("messages that wait: -") == 2


def test_one_that_nobody_sends_or_with_too_many_dead_letters_is_blocked(
    kafka: Kafka4, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.has_members = False
    stands(monkeypatch, STAND._replace(is_held=False))
    for one in look(kafka, partition()):
        assert one.state == State.BLOCKED
        assert "no `headwater serve` sends it" in one.blocked_by
    measured(monkeypatch)
    for one in look(kafka):
        assert (one.state, one.lag_s) == (State.BLOCKED, None), "whatever else is not known"
        assert one.undelivered_s is None
    measured(monkeypatch, partition(view="big"))
    kafka.has_members = True
    kafka.letters = [(f"big:msg_{number}".encode(), b"{}") for number in range(1_000)]
    big, _ = look(kafka)
    assert (big.state, big.dead_letters) == (State.BLOCKED, 1_000)
    assert big.blocked_by == "1,000 dead letters: settle some"


def test_dead_letters_are_counted_as_they_come_and_go(kafka: Kafka4) -> None:
    counts = LetterCounts("shop", cast(Broker, kafka))
    assert counts.now() == {}
    kafka.letters += [(b"big:msg_1", b"{}"), (b"risen:msg_2", b"{}"), (b"big:msg_3", b"{}")]
    assert counts.now() == {"big": 2, "risen": 1}
    kafka.letters += [(b"big:msg_1", None)]
    assert counts.now() == {"big": 1, "risen": 1}
    assert kafka.reads == [3, 1], "what was read is not read again"
    kafka.letters = [(b"big:msg_9", b"{}")]
    assert counts.now() == {"big": 1}, "the topic was made anew"


def test_lag_shows_each_alert_to_people_and_programs(kafka: Kafka4) -> None:
    kafka.letters = [(b"big:msg_1", b"{}")]
    seen = Seen(Assessor(10.0).report(lag(partition())), {}, {}, alerts=look(kafka, partition()))
    big, risen = document(seen)["alerts"]
    assert (big["alert"], big["of"], big["state"]) == ("big", "public.orders", "idle")
    assert (big["waiting_messages"], big["dead_letters"], big["last_delivered_s"]) == (5, 1, 96.0)
    assert (risen["behind_s"], risen["behind_records"], risen["blocked_by"]) == (12.0, 3, None)
    text = shown(seen)
    assert "alert big" in text
    assert "1 dead letter: headwater dead-letters list alerts.big" in text
    assert "2 messages wait" in text


def shown(seen: Seen) -> str:
    stream = io.StringIO()
    Console(file=stream, width=160).print(table(seen))
    return stream.getvalue()
