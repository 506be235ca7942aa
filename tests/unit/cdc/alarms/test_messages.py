"""Which messages are sent about which alarms, and when."""

from __future__ import annotations

from itertools import pairwise

from cdc.alarms.judge import Judge
from cdc.alarms.messages import SPACING_S, Message, Messages
from cdc.metrics import catalog as m
from cdc.metrics import serve_catalog as s
from cdc.metrics.exposition import Sample
from cdc.metrics.metric import Metric


class Process:
    """One that exports what a test says, and whose receiver answers or not."""

    def __init__(self, by_apply: bool = False, now_s: float = 1_000_000.0) -> None:
        self.judge = Judge(by_apply=by_apply)
        self.messages = Messages(self.judge)
        self.samples: list[Sample] = []
        self.received: list[Message] = []
        self.answers = True
        self.now_s = now_s

    def exports(self, *values: tuple[Metric, str | float]) -> None:
        self.samples = [
            Sample(metric, ("shop", *("v" for _ in metric.labels[1:])), value)
            for metric, value in values
        ]

    def passes(self, seconds: int) -> list[str]:
        """What is received meanwhile, in short."""
        before = len(self.received)
        for _ in range(seconds):
            self.now_s += 1
            firing = self.judge.look(self.now_s, self.samples)
            for message in self.messages.due(self.now_s, firing):
                if self.answers:
                    self.received.append(message)
                    self.messages.sent(message)
        return [f"{one.alarm.code} {one.status}" for one in self.received[before:]]


STALLED = (m.VIEW_STATE, "stalled")
IDLE = (m.VIEW_STATE, "idle")


def test_an_alarm_is_told_when_it_has_held_and_when_it_is_over() -> None:
    process = Process()
    process.exports(STALLED)
    assert process.passes(59) == []
    assert process.passes(10) == ["HW008 firing"]
    assert process.passes(3_600) == [], "once"
    process.exports(IDLE)
    assert process.passes(60) == ["HW008 resolved"]
    document = process.received[0].document("apply")
    assert document["type"] == "headwater.alarm.firing"
    assert document["timestamp"] == "1970-01-12T13:47:41Z"
    data = document["data"]
    assert isinstance(data, dict)
    assert data["of"] == [{"view": "v"}]
    assert data["summary"] == "shop: view v has changes to apply, and none is applied"


def test_what_holds_too_briefly_is_not_told() -> None:
    process = Process()
    process.exports(STALLED)
    assert process.passes(50) == []
    process.exports(IDLE)
    assert process.passes(5) == []
    process.exports(STALLED)
    assert process.passes(50) == []


def test_one_that_comes_and_goes_is_told_at_most_each_quarter_of_an_hour() -> None:
    process = Process()
    told = []
    for _ in range(20):
        process.exports(STALLED)
        told += process.passes(90)
        process.exports(IDLE)
        told += process.passes(30)
    assert told == ["HW008 firing", "HW008 resolved"] * 3
    firing = [one for one in process.received if one.status == "firing"]
    spaces = [later.at_s - one.at_s for one, later in pairwise(firing)]
    assert min(spaces) >= SPACING_S
    assert len({one.id for one in process.received}) == len(process.received)


def test_a_message_that_was_not_taken_is_due_again_with_the_same_id_until_it_is_over() -> None:
    process = Process()
    process.exports(STALLED)
    process.answers = False
    assert process.passes(120) == []
    firing = process.judge.look(process.now_s, process.samples)
    ids = {one.id for at in (1, 200) for one in process.messages.due(process.now_s + at, firing)}
    assert len(ids) == 1
    process.answers = True
    assert process.passes(1) == ["HW008 firing"]
    assert {process.received[0].id} == ids
    process.answers = False
    process.exports(IDLE)
    assert process.passes(10) == []
    process.answers = True
    assert process.passes(1) == ["HW008 resolved"]


def test_what_was_never_told_is_not_told_to_be_over() -> None:
    process = Process()
    process.answers = False
    process.exports(STALLED)
    process.passes(120)
    process.exports(IDLE)
    process.answers = True
    assert process.passes(10) == []


def test_a_cause_silences_its_consequences_before_it_is_told_itself() -> None:
    process = Process()
    late = (m.VIEW_LAG_SECONDS, 400.0), (m.VIEW_LAG_TARGET, 300.0), IDLE
    process.exports((m.CAPTURE_STATE, "source unknown"), *late)
    assert process.passes(600) == ["HW001 firing"]
    process.exports((m.CAPTURE_STATE, "idle"), *late)
    assert process.passes(1) == ["HW001 resolved", "HW007 firing"]
    process.exports((m.CAPTURE_STATE, "source unknown"), *late)
    assert process.passes(60) == [], "it still holds, and is not told to be over"


def test_many_views_are_one_message_and_a_further_one_is_told_later() -> None:
    process = Process()
    stalled = [Sample(m.VIEW_STATE, ("shop", f"v{n}"), "stalled") for n in range(3)]
    process.samples = stalled[:2]
    assert process.passes(70) == ["HW008 firing"]
    assert len(process.received[0].things) == 2
    assert "and 1 more" in str(process.received[0].document("apply"))
    process.samples = stalled
    assert process.passes(500) == []
    assert process.passes(500) == ["HW008 firing"]
    assert len(process.received[1].things) == 3


def test_a_look_that_the_source_does_not_answer_ends_nothing_and_begins_nothing_again() -> None:
    process = Process()
    unread, unknown = (m.SLOT_ACTIVE, 0.0), (m.CAPTURE_STATE, "source unknown")
    process.exports(unread)
    assert process.passes(200) == []
    process.exports(unknown)
    assert process.passes(5) == []
    process.exports(unread)
    assert process.passes(100) == ["HW002 firing"], "it has held for five minutes"
    process.exports(unknown)
    assert process.passes(5) == []
    process.exports(unread)
    assert process.passes(5) == []
    process.exports((m.SLOT_ACTIVE, 1.0))
    assert process.passes(1) == ["HW002 resolved"]


def test_what_is_not_measured_for_a_minute_is_over() -> None:
    process = Process()
    process.exports(STALLED)
    assert process.passes(70) == ["HW008 firing"]
    process.exports((m.VIEW_STATE, "no data"))
    assert process.passes(55) == []
    assert process.passes(10) == ["HW008 resolved"]
    process.exports(STALLED)
    assert process.passes(50) == []
    process.exports()
    assert process.passes(50) == [], "a gap does not make it fire"


def test_what_has_a_sample_only_while_it_blocks_is_over_with_the_state() -> None:
    process = Process()
    process.samples = [
        Sample(m.VIEW_BLOCKED, ("shop", "v", "stopped"), 1),
        Sample(m.VIEW_STATE, ("shop", "v"), "blocked"),
    ]
    assert process.passes(40) == ["HW011 firing"]
    process.exports(IDLE)
    assert process.passes(1) == ["HW011 resolved"]


def test_apply_tells_of_the_source_only_while_no_capture_works() -> None:
    """It sees less than capture does: not that a long transaction is published."""
    apply, capture = Process(by_apply=True), Process()
    stalled = (m.CAPTURE_STATE, "stalled"), STALLED
    for process in (apply, capture):
        process.exports((m.SLOT_ACTIVE, 1.0), *stalled)
    assert apply.passes(100) == ["HW008 firing"]
    assert capture.passes(100) == ["HW001 firing", "HW008 firing"]
    apply.exports((m.SLOT_ACTIVE, 0.0), *stalled)
    assert apply.passes(1) == ["HW001 firing"]
    apply.exports((m.SLOT_ACTIVE, 1.0), (m.CAPTURE_STATE, "idle"), STALLED)
    assert apply.passes(1) == ["HW001 resolved"]


def test_apply_tells_that_alerts_on_rows_stand_while_no_server_is_left_to_tell_it() -> None:
    apply, serve = Process(by_apply=True), Process()
    blocked = Sample(s.ROW_ALERT_STATE, ("shop", "big"), "blocked")
    for process in (apply, serve):
        process.samples = [blocked, Sample(s.ROW_ALERT_STATE, ("shop", "risen"), "idle")]
    assert (apply.passes(200), serve.passes(200)) == ([], ["HW017 firing"])
    apply = Process(by_apply=True)
    apply.samples = [blocked, Sample(s.ROW_ALERT_STATE, ("shop", "risen"), "blocked")]
    assert apply.passes(200) == ["HW017 firing"]
    assert [dict(one) for one in sorted(apply.received[0].things)] == [
        {"alert": "big"}, {"alert": "risen"},
    ]  # fmt: skip
    assert "nobody sends the messages of alert big" in str(apply.received[0].document("apply"))
    apply.samples = [Sample(s.ROW_ALERT_STATE, ("shop", name), "idle") for name in ("big", "risen")]
    assert apply.passes(100) == ["HW017 resolved"]


def test_messages_that_wait_are_told_unless_nobody_sends_them() -> None:
    process = Process()
    waits = (s.ROW_ALERT_UNDELIVERED, 400.0), (s.ROW_ALERT_LIMIT, 300.0)
    process.exports((s.ROW_ALERT_STATE, "stalled"), *waits)
    assert process.passes(100) == ["HW018 firing"]
    process.exports((s.ROW_ALERT_STATE, "blocked"), *waits)
    assert process.passes(200) == ["HW017 firing"]
    process.exports((s.ROW_ALERT_STATE, "idle"), (s.ROW_ALERT_UNDELIVERED, 0.0), waits[1])
    assert sorted(process.passes(100)) == ["HW017 resolved", "HW018 resolved"]


def test_without_an_answer_of_the_source_marks_tell_apply_whether_capture_works() -> None:
    process = Process(by_apply=True)
    unknown = (m.CAPTURE_STATE, "source unknown"), (m.SOURCE_HEARTBEAT_EVERY, 10.0)
    for marked_s, told in ((1_000_050.0, []), (999_000.0, ["HW001 firing"])):
        process.exports(*unknown, (m.CAPTURE_MARK, marked_s))
        assert process.passes(60) == told


def test_a_message_of_something_else_has_another_id() -> None:
    """Of another process, as dead letters of capture and of views are, and after a restart."""
    capture, apply = Process(), Process(by_apply=True)
    ids = set()
    for cut in range(400):
        capture.exports((m.CAPTURE_DEAD_LETTERS, float(cut)))
        capture.passes(10)
    apply.exports((m.VIEW_PARKED, 1.0))
    apply.now_s = capture.received[0].since_s - 1
    apply.passes(70)
    again = Process(by_apply=True, now_s=apply.now_s)
    again.exports((m.VIEW_PARKED, 1.0))
    again.passes(70)
    for process in (capture, apply, again):
        assert {one.alarm.code for one in process.received} == {"HW010"}
        ids |= {one.id for one in process.received}
    assert len(ids) == sum(len(one.received) for one in (capture, apply, again))
