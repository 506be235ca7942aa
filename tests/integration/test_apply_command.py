"""``headwater apply`` as a process: its end, its death, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from cdc.config import load_config
from cdc.kafka.broker import Broker
from cdc.topics import view_group
from jobs.sinks import open_sink
from tests.waiting import wait_until
from tests.written import V1, Log, row, v1

_CONFIG = """
[source]
name = "{source}"
dsn = "dbname=unused"
tables = ["public.t"]
[kafka]
bootstrap_servers = "{kafka}"
[stores.cache]
kind = "redis"
url = "{redis}"
[views.{source}_good]
store = "cache"
key = ["id"]
sql = "select id, body from t"
[views.{source}_bad]
store = "cache"
key = ["id"]
sql = "select id, colour from t"
[views.{source}_strict]
store = "cache"
key = ["id"]
sql = "select id, body::int as number from t"
[apply]
state = "./state"
"""


class Setting:
    """A configured source with a log to write to."""

    def __init__(self, directory: Path, log: Log, redis: str) -> None:
        self.log, self.directory = log, directory
        self.file = directory / "headwater.toml"
        self.file.write_text(_CONFIG.format(source=log.source, kafka=log.bootstrap, redis=redis))
        self.good, self.bad = f"{log.source}_good", f"{log.source}_bad"
        self.strict = f"{log.source}_strict"
        self._started: list[subprocess.Popen[bytes]] = []

    def apply(self, *arguments: str) -> subprocess.Popen[bytes]:
        main = "from cdc.cli.app import main; main()"
        command = [sys.executable, "-c", main, "--config", str(self.file), "apply", *arguments]
        with (self.directory / "log").open("ab") as out:
            process = subprocess.Popen(command, stderr=out, stdout=out, start_new_session=True)
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def output(self) -> str:
        return (self.directory / "log").read_text()

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.output().splitlines() if f'"{event}"' in line]
        return [json.loads(line) for line in lines if line.endswith("}")]

    def parks(self, keys: int) -> None:
        """A view stops when more keys than these would be parked."""
        settings = self.file.read_text()
        self.file.write_text(settings.replace("[apply]", f"[apply]\ndlq_limit = {keys}"))

    def says_no_more(self) -> None:
        """A value that stops a view, or is parked, is in no log, and neither is Spark's stack."""
        said = self.output()
        assert "confidential" not in said
        lines = said.splitlines()
        stack = [line for line in lines if "org.apache.spark" in line or line.startswith("\tat ")]
        assert not stack, said

    def stored(self) -> dict[Any, dict[str, Any]]:
        sink = open_sink(load_config(self.file).stores["cache"], self.good, None)
        columns = [StructField("id", IntegerType()), StructField("body", StringType())]
        sink.prepare(StructType(columns), ("id",))
        try:
            return {stored.key[0]: stored.values for stored in sink.scan()}
        finally:
            sink.close()

    def group_is_at_the_end(self) -> bool:
        with Broker(self.log.bootstrap) as broker:
            ends = broker.end_offsets([self.log.topic])
            return broker.committed(view_group(self.good), [self.log.topic]) == ends


@pytest.fixture
def setting(tmp_path: Path, kafka: str, redis_server: str, source_name: str) -> Iterator[Setting]:
    log = Log(kafka, source_name)
    log.describe(V1)
    made = Setting(tmp_path, log, redis_server)
    yield made
    made.close()


def test_killed_and_started_again_it_goes_on_and_sigterm_ends_it(setting: Setting) -> None:
    setting.log.write(*(v1(1, i, row(i, "first")) for i in range(1, 200)))
    first = setting.apply(setting.good)
    wait_until(lambda: setting.logged("batch_applied"), "a first batch")
    setting.log.write(*(v1(2, i, row(i, "second"), "u") for i in range(1, 100)))
    first.kill()
    first.wait()
    setting.log.write(*(v1(3, i, row(i, "third"), "u") for i in range(1, 50)))

    second = setting.apply(setting.good)
    wait_until(setting.group_is_at_the_end, "the group at the topic's end")
    third = setting.apply("--available-now", setting.good)
    wait_until(lambda: setting.logged("view_waits_for_another_process"), "the third to wait")
    (waiting,) = setting.logged("view_waits_for_another_process")
    assert (waiting["pid"], waiting["at_most_s"]) == (second.pid, 60)
    bodies = {id_: values["body"] for id_, values in setting.stored().items()}
    assert bodies == {i: "third" if i < 50 else "second" if i < 100 else "first" for i in bodies}
    assert len(bodies) == 199

    os.killpg(second.pid, signal.SIGTERM)  # as a service manager sends it: to Java too
    assert second.wait(120) == 0, setting.output()
    assert third.wait(120) == 0, setting.output()
    of_second, of_third = setting.logged("view_ended")
    assert (of_second["rows"] > 0, of_third["rows"]) == (True, 0)


def test_a_consumer_in_the_views_group_keeps_it_from_nothing(setting: Setting) -> None:
    """Also where it was there before the view."""
    group = view_group(setting.good)
    first = setting.apply("--available-now", setting.good)
    assert first.wait(300) == 0, setting.output()
    setting.log.write(v1(1, 1, row(1, "a")))
    joined = KafkaConsumer(
        setting.log.topic,
        bootstrap_servers=setting.log.bootstrap,
        group_id=group,
        enable_auto_commit=False,
    )
    try:
        wait_until(lambda: joined.poll(100) or joined.assignment(), "a member of the group")
        process = setting.apply(setting.good)
        wait_until(lambda: setting.logged("offsets_not_committed"), "the group to be refused")
        wait_until(lambda: setting.stored() == {1: {"id": 1, "body": "a"}}, "the row")
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(120) == 0, setting.output()
    finally:
        joined.close()
    last = setting.apply("--available-now", setting.good)
    assert last.wait(300) == 0, setting.output()
    assert setting.group_is_at_the_end()


def test_failing_views_are_a_line_each_and_exit_code_1_and_others_are_applied(
    setting: Setting,
) -> None:
    setting.parks(0)
    setting.log.write(v1(1, 1, row(1, "confidential")))
    views = (setting.good, setting.bad, setting.strict)
    process = setting.apply("--available-now", "--json", *views)
    assert process.wait(300) == 1, setting.output()
    lines = setting.output().splitlines()
    errors = sorted(line for line in lines if line.startswith("error: "))
    assert len(errors) == 2
    assert any("public.t has no such column" in line for line in errors)
    assert any("CAST_INVALID_INPUT" in line for line in errors)
    assert setting.stored() == {1: {"id": 1, "body": "confidential"}}
    (batch,) = (line for line in setting.logged("batch_applied") if line["records"])
    assert (batch["view"], batch["keys"], batch["rows"]) == (setting.good, 1, 1)
    assert sum(batch["offsets"][setting.log.topic].values()) == 1
    assert len(batch["fresh_ms"]) == 1
    assert setting.group_is_at_the_end()
    setting.says_no_more()


def test_an_event_that_cannot_be_applied_is_told_and_parked_and_stops_no_view(
    setting: Setting,
) -> None:
    setting.parks(1)
    setting.log.write(v1(1, 1, row(1, "confidential")), v1(1, 2, row(2, "17")))
    process = setting.apply("--available-now", "--json", setting.good, setting.strict)
    assert process.wait(300) == 0, setting.output()
    (parked,) = setting.logged("keys_parked")
    assert (parked["view"], parked["keys"], parked["parked"]) == (setting.strict, 1, 1)
    assert "CAST_INVALID_INPUT" in parked["cause"]
    setting.says_no_more()


def test_an_unknown_view_is_a_usage_error(setting: Setting) -> None:
    process = setting.apply("nosuch")
    assert process.wait(120) == 2
    assert "no view 'nosuch'" in setting.output()
