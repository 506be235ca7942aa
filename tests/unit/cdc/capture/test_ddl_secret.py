"""The secret of the DDL trigger: who may read it, and that no message which is published has it."""

from __future__ import annotations

import json
from base64 import b64decode
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
from structlog.testing import capture_logs

from cdc.capture import topic_setup as opening
from cdc.capture.ddl_trigger import DdlTrigger, trigger_secret
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from headwater.check.ddl_trigger import ddl_events
from headwater.check.finding import Finding
from headwater.check.source import Source
from tests.support.events.transcribed import begin, commit, frame, relation
from tests.unit.cdc.events.test_large_messages import ddl, message
from tests.unit.cdc.kafka.test_outbox_topics import config, topics


class Server:
    """A connection on which each question has its answer, in turn."""

    def __init__(self, *answers: tuple[Any, ...] | None) -> None:
        self._answers = list(answers)
        self.info = SimpleNamespace(user="capture")

    def execute(self, _sql: str) -> Server:
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._answers.pop(0)


def found(*answers: tuple[Any, ...] | None) -> list[Finding]:
    conn = cast(Any, Server(*answers))
    return list(ddl_events(Source(config(), conn, known=True, initialised=True)))


def diverted(payload: bytes, hides: bool = False) -> tuple[bytes, list[str]]:
    """The content of a message that capture takes for none of the trigger's, and the reasons.
    ``hides``: there are columns that must not leave the source."""
    why: list[str] = []
    outbox = SimpleNamespace(
        ddl=lambda _secret: None,
        passed_over=lambda _lsn, said: why.append(said),
        hides_values=hides,
    )
    made = Transcriber(
        SourceContext("1", "s", "db"), relation, lambda _r, _k, _x: None, lambda _t: 1, 50,
        None, outbox,
    )  # fmt: skip
    for one in (begin(200), payload, commit(200)):
        made.feed(frame(one, 100))
    (record,) = made.take().records["s.message"]
    assert isinstance(record, dict)
    told = json.loads(record["value"] or b"")["message"]
    assert (told["content"] is None) == ("omitted" in told)
    return b64decode(told["content"] or ""), why


def test_a_message_that_is_not_known_as_the_triggers_is_published_without_the_secret() -> None:
    content, why = diverted(ddl("t"))
    assert json.loads(content)["table"] == "t"
    assert b"s3cret" not in content
    assert why == ["it is not known to be of the DDL trigger"]


@pytest.mark.parametrize("content", [b"garbage", b"two\nlines", b'{"table": "t"}'])
def test_what_the_trigger_cannot_have_written_is_published_as_it_is(content: bytes) -> None:
    assert diverted(message("headwater.ddl", content))[0] == content


ODD = {"tag": "", "oid": 1, "schema": "s", "table": "t", "renamed": None, "columns": None}


@pytest.mark.parametrize(
    "content",
    [
        b"garbage",
        b'{"table": "t", "default": "hidden"}',  # an earlier version's trigger has no secret
        *(b"x\n" + json.dumps({**ODD, "columns": odd}).encode() for odd in ([1], "abc", 5, [[1]])),
    ],
)
def test_where_columns_must_not_leave_what_cannot_be_read_is_told_by_its_size(
    content: bytes,
) -> None:
    """Whoever wrote it."""
    found, why = diverted(message("headwater.ddl", content), hides=True)
    assert found == b""
    assert f"it has {len(content)} bytes: only its size and hash are published" in why


def test_where_columns_must_not_leave_odd_text_stops_nothing() -> None:
    found, _ = diverted(
        message("headwater.ddl", b"x\n" + json.dumps({**ODD, "z": "\ud800"}).encode()), True
    )
    assert json.loads(found)["z"] == "\ud800"


@pytest.mark.parametrize(
    ("answers", "secret"), [([None], ""), ([(False,)], None), ([(True,), ("s3cret",)], "s3cret")]
)
def test_a_secret_that_this_role_may_not_read_is_told_from_none(
    answers: list[tuple[Any, ...] | None], secret: str | None
) -> None:
    assert trigger_secret(cast(Any, Server(*answers))) == secret


@pytest.mark.parametrize("secret", ["", None])
def test_capture_says_that_it_may_not_read_the_secret(
    monkeypatch: pytest.MonkeyPatch, secret: str | None
) -> None:
    def wrote(trigger: DdlTrigger, _said: str) -> bool:
        trigger._secret = secret
        return False

    monkeypatch.setattr(DdlTrigger, "wrote", wrote)
    monkeypatch.setattr(opening, "log", structlog.get_logger())
    with capture_logs() as logs:
        assert topics(config()).ddl("s3cret") is None
    events = [one["event"] for one in logs]
    assert events == (["ddl_secret_unreadable"] if secret is None else [])
    assert "s3cret" not in str(logs)


def test_check_finds_the_trigger_of_an_earlier_version() -> None:
    (error,) = found(("headwater", False))
    assert (error.level, "earlier version" in error.message) == ("error", True)
    assert error.hint == "Run `headwater init --ddl-events` as a superuser."


def test_check_finds_a_secret_that_capture_may_not_read() -> None:
    (error,) = found(("headwater_ddl", False))
    assert error.level == "error"
    assert error.sql == (
        'GRANT USAGE ON SCHEMA headwater_ddl TO "capture"',
        'GRANT SELECT ON headwater_ddl.secret TO "capture"',
    )


def test_check_is_content_with_a_trigger_whose_secret_it_reads_and_with_none() -> None:
    assert found(("headwater_ddl", True)) == []
    assert found(None) == []
