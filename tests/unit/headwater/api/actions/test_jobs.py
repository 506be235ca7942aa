"""Jobs: who may begin one, what has to wait, and that nothing is done which is not written down."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import RetryableError
from headwater.actions.commands import Command
from headwater.api.access.principal import Principal, Role
from headwater.api.actions import jobs as module
from headwater.api.actions.audit import Audit
from headwater.api.actions.jobs import Jobs
from headwater.api.actions.refusals import LINES
from headwater.api.problems import ProblemError

ALICE = Principal("alice", Role.OPERATOR, frozenset())
BOB = Principal("bob", Role.VIEWER, frozenset("*"))
EXPLAIN = Command("explain", "v", ("explain", "HW001", "--json"), shown=lambda found: found[0])


class Slow:
    """A process that lasts until it is stopped."""

    def __init__(self, *_: object) -> None:
        self.steps, self.errors, self.rows, self.expected = ["at it"], list[str](), 3, 9
        self.fault: dict[str, Any] | None = None
        self.document, self.code = None, 0
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await self._stopped.wait()
        self.fault = {"kind": "stopped", "message": "it was stopped", "hint": ""}

    def stop(self) -> None:
        self._stopped.set()

    def kill(self) -> None:
        self._stopped.set()


def run(
    tmp_path: Path, what: Callable[[Jobs, Audit], Coroutine[Any, Any, None]]
) -> list[dict[str, Any]]:
    """The audit log as it is then, the oldest line first."""
    audit = Audit(tmp_path / "audit.jsonl")

    async def whole() -> None:
        jobs = Jobs(tmp_path / "headwater.toml", audit, lambda: None)
        await what(jobs, audit)
        await jobs.end(10)

    asyncio.run(whole())
    return [dataclasses.asdict(one) for one in reversed(audit.newest(100))]


def outcomes(lines: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(one["who"], one["action"], one["outcome"]) for one in lines]


def test_a_command_runs_and_its_document_is_the_result(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        begun = await jobs.start(ALICE, "::1", EXPLAIN)
        assert begun.status == "running"
        done = await jobs.settled(begun.id, ALICE, 60)
        assert (done.status, done.detail) == ("done", "")
        assert done.result is not None
        assert done.result["code"] == "HW001"
        assert jobs.find(begun.id, BOB) == done
        assert jobs.all(BOB) == [done]

    lines = run(tmp_path, what)
    assert outcomes(lines) == [("alice", "explain", "begun"), ("alice", "explain", "done")]
    assert lines[0]["job"] == lines[1]["job"]


def test_a_command_that_refuses_does_so_in_its_own_words(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        for arguments, words in (
            (("explain", "HW999"), "No alarm 'HW999'."),
            (("explain", "--odd"), "No such option"),
            (("view", "list"), "headwater.toml"),
        ):
            begun = await jobs.start(ALICE, "", Command("a", "v", arguments))
            with pytest.raises(ProblemError) as refused:
                await jobs.settled(begun.id, ALICE, 60)
            assert refused.value.status == 400
            assert words in refused.value.detail
            assert refused.value.more == {"job": begun.id}
            assert jobs.find(begun.id, BOB).status == "failed"

    lines = run(tmp_path, what)
    assert [one["outcome"] for one in lines] == ["begun", "failed"] * 3
    assert "HW999" in lines[1]["detail"]


def test_what_a_command_says_of_keys_is_told_to_who_named_them_alone(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        secret = Command("retry", "v", ("explain", "secret"), {"keys": 1}, quotes=True)
        await jobs.settled((await jobs.start(ALICE, "", EXPLAIN)).id, ALICE, 60)
        begun = await jobs.start(ALICE, "", secret)
        with pytest.raises(ProblemError, match="secret"):
            await jobs.settled(begun.id, ALICE, 60)
        assert "secret" in jobs.find(begun.id, ALICE).detail
        assert "secret" not in str(jobs.find(begun.id, BOB))
        token = ALICE._replace(proof="of a token of the same name")
        assert "secret" not in str(jobs.find(begun.id, token))

    assert "secret" not in json.dumps(run(tmp_path, what))


def test_a_viewer_may_do_nothing_and_the_attempt_is_written_down(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        with pytest.raises(ProblemError) as refused:
            await jobs.start(BOB, "10.0.0.9", EXPLAIN)
        assert refused.value.status == 403
        assert jobs.all(BOB) == []

    (line,) = run(tmp_path, what)
    assert (line["who"], line["outcome"], line["address"]) == ("bob", "refused", "10.0.0.9")


def test_what_a_viewer_sends_is_written_down_in_short_and_not_without_end(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        tables = {"tables": [f"public.t{i}" for i in range(1_000)], "rate": "1 MB/s"}
        for _i in range(50):
            with pytest.raises(ProblemError):
                await jobs.start(BOB, "", Command("snapshot start", "", (), tables))

    lines = run(tmp_path, what)
    assert len(lines) == LINES + 1
    assert {json.dumps(one["arguments"]) for one in lines} == {
        '{"tables": 1000, "rate": "1 MB/s"}'
    }  # fmt: skip


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Process", Slow)


@pytest.mark.usefixtures("slow")
def test_one_view_has_one_job_at_a_time_and_all_have_four(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        started = await asyncio.gather(
            *(jobs.start(ALICE, "", Command("verify", "v", ())) for _ in range(5)),
            return_exceptions=True,
        )
        (first,) = (one for one in started if not isinstance(one, BaseException))
        refused = [one for one in started if isinstance(one, ProblemError)]
        assert [(one.status, one.more["job"]) for one in refused] == [(409, first.id)] * 4
        for name in "wxz":
            await jobs.start(ALICE, "", Command("verify", name, ()))
        with pytest.raises(ProblemError) as full:
            await jobs.start(ALICE, "", Command("verify", "y", ()))
        assert (full.value.status, "Retry-After" in full.value.headers) == (503, True)
        for _i in range(4):
            await jobs.start(ALICE, "", Command("pause", "v", ()), asks=True)
        with pytest.raises(ProblemError, match="4 jobs"):
            await jobs.start(ALICE, "", Command("pause", "v", ()), asks=True)
        running = await jobs.settled(first.id, ALICE, 0)
        assert (running.status, running.steps, running.rows) == ("running", ("at it",), 3)

    run(tmp_path, what)


@pytest.mark.usefixtures("slow")
def test_a_job_ends_when_it_is_told_to_and_with_the_server(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        first = await jobs.start(ALICE, "", Command("verify", "v", ()))
        await jobs.start(ALICE, "", Command("verify", "w", ()))
        with pytest.raises(ProblemError):
            await jobs.stop(BOB, "", first.id)
        assert jobs.find(first.id, ALICE).status == "running"
        await jobs.stop(ALICE, "", first.id)
        with pytest.raises(ProblemError, match="stopped"):
            await jobs.settled(first.id, ALICE, 10)
        with pytest.raises(ProblemError) as unknown:
            jobs.find("odd", ALICE)
        assert unknown.value.status == 404

    lines = outcomes(run(tmp_path, what))
    assert lines[2:4] == [("bob", "job stop", "refused"), ("alice", "job stop", "done")]
    assert lines[4:] == [("alice", "verify", "failed")] * 2


def test_what_the_server_ends_by_force_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(Slow):
        def stop(self) -> None:
            pass

    monkeypatch.setattr(module, "Process", Deaf)

    async def what(jobs: Jobs, audit: Audit) -> None:
        await jobs.start(ALICE, "", Command("verify", "v", ()))
        await jobs.end(0.01)
        assert [one.outcome for one in audit.newest(10)] == ["failed", "begun"]

    run(tmp_path, what)


@pytest.mark.usefixtures("slow")
def test_nothing_is_begun_that_cannot_be_written_down(tmp_path: Path) -> None:
    async def what(jobs: Jobs, _: Audit) -> None:
        (tmp_path / "audit.jsonl").mkdir()
        with pytest.raises(RetryableError):
            await jobs.start(ALICE, "", Command("verify", "v", ()))
        assert jobs.all(BOB) == []
        (tmp_path / "audit.jsonl").rmdir()
        await jobs.start(ALICE, "", Command("verify", "v", ()))

    assert outcomes(run(tmp_path, what))[0] == ("alice", "verify", "begun")


@pytest.mark.usefixtures("slow")
def test_so_many_jobs_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 3)

    async def what(jobs: Jobs, _: Audit) -> None:
        for i in range(6):
            begun = await jobs.start(ALICE, "", Command("verify", f"v{i}", ()))
            await jobs.stop(ALICE, "", begun.id)
            with pytest.raises(ProblemError):
                await jobs.settled(begun.id, ALICE, 10)
        assert [one.of for one in jobs.all(BOB)] == ["v5", "v4", "v3"]

    run(tmp_path, what)
