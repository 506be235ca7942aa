"""Kafka 4.1 in KRaft mode: broker and controller in one process."""

from __future__ import annotations

import base64
import os
import shutil
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path

from stack.jvm import FAST_START, JVM_OPTIONS, java_command
from stack.ports import HOST
from stack.server import Launch, Place, Traits, ask, run_step, without

_HEAP = ("-Xms128m", "-Xmx512m")
_MESSAGE_MAX_BYTES = 16 * 1024 * 1024

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(_MESSAGE_MAX_BYTES),
    "replica.fetch.max.bytes": str(_MESSAGE_MAX_BYTES),
    "group.initial.rebalance.delay.ms": "0",
    # One node cannot replicate.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # After a kill -9 the controller lets the broker back in only when its old session has ended:
    # 9 s by default.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    # An idle controller writes a record of nothing twice a second, which the broker reads: with a
    # heartbeat beside each it was half of what a broker takes that nobody uses.
    "metadata.max.idle.interval.ms": "0",
    # 50 partitions each by default: nothing but start-up time on one node.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Kafka:
    """The log."""

    traits = Traits(
        name="kafka",
        ports=("main", "controller"),
        start_timeout_s=120,
        environ_prefixes=("KAFKA_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    )

    def directory(self, home: Path) -> Path:
        return home / self.traits.name

    def prepare(self, place: Place) -> Launch:
        place.directory.mkdir(parents=True, exist_ok=True)
        given = dict(place.settings)
        options = given.pop(JVM_OPTIONS, FAST_START).split()
        properties = _write_properties(place, given)
        environ = without(os.environ, self.traits.environ_prefixes)
        java = java_command(place.directory, "kafka", [*_HEAP, *options])
        if not (place.directory / "data" / "meta.properties").exists():
            _format(java, place, properties, environ)
        return Launch([*java, "kafka.Kafka", properties], place.directory, environ)

    def answers(self, place: Place) -> bool:
        """A Metadata answer that lists a broker: it is registered and topics can be created."""
        # Metadata v4 (request 3) for no topics: correlation 1, no client id.
        body = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">ib", 0, 0)
        question = struct.pack(">i", len(body)) + body
        answer = ask(place.ports["main"], question, 16)  # size, correlation, throttle, brokers
        return len(answer) == 16 and struct.unpack(">iiii", answer)[3] > 0

    def address(self, place: Place) -> str:
        return f"{HOST}:{place.ports['main']}"


def _write_properties(place: Place, given: Mapping[str, str]) -> Path:
    """The settings' own ``listeners`` are served besides ours, and told to clients as they are or
    as their ``advertised.listeners`` say."""
    main, controller = place.ports["main"], place.ports["controller"]
    more = [given["listeners"]] if "listeners" in given else []
    told = [given.get("advertised.listeners", "".join(more))] if more else []
    plain = f"PLAINTEXT://{HOST}:{main}"
    settings = {
        **SETTINGS,
        **given,
        "log.dirs": str(place.directory / "data"),
        "listeners": ",".join([plain, f"CONTROLLER://{HOST}:{controller}", *more]),
        "advertised.listeners": ",".join([plain, *told]),
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    path = place.directory / "server.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
    return path


def _format(java: list[str], place: Place, properties: Path, environ: dict[str, str]) -> None:
    """Name the cluster on disk. What a format that was cut left behind is dropped first."""
    shutil.rmtree(place.directory / "data", ignore_errors=True)
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    command = [*java, "kafka.tools.StorageTool", "format", "-c", str(properties), "-t", cluster]
    run_step("kafka: formatting its storage", Launch(command, place.directory, environ), place.log)
