"""Metrics and probes over HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cdc.errors import UsageError
from cdc.metrics import catalog
from cdc.metrics.exposition import Sample, registry_of
from cdc.metrics.probes import LIVE_S, Probes
from cdc.metrics.server import MetricsServer
from stack.ports import free_port


def samples() -> Iterator[Sample]:
    yield Sample(catalog.BUILD, ("0.1.0", "capture"), 1)


@contextmanager
def served(probes: Probes, host: str = "127.0.0.1") -> Iterator[int]:
    port = free_port(set())
    server = MetricsServer(f"{host}:{port}", "metrics.capture", registry_of(samples), probes)
    with closing(server):
        yield port


def get(port: int, path: str) -> tuple[int, str, str]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()


def report(port: int, path: str) -> tuple[int, Any]:
    status, kind, body = get(port, path)
    assert kind == "application/json"
    return status, json.loads(body)


def test_metrics_are_served_with_those_of_the_process() -> None:
    with served(Probes()) as port:
        status, kind, body = get(port, "/metrics")
        assert (status, kind.partition(";")[0]) == (200, "text/plain")
        names = {family.name for family in text_string_to_metric_families(body)}
        assert {"headwater_build_info", "process_resident_memory_bytes"} <= names
        assert get(port, "/metrics?x=1")[0] == 200
        assert report(port, "/")[0] == 404


def test_live_and_ready_differ_and_say_why() -> None:
    now, missing = [1_000.0], list[str]()

    def lacking() -> Sequence[str]:
        return missing

    probes = Probes(lambda: now[0])
    probes.ready_unless(lacking)
    with served(probes) as port:
        assert report(port, "/livez") == (200, {"live": True, "reason": "it is starting"})
        assert report(port, "/readyz") == (503, {"ready": False, "missing": ["it is starting"]})
        probes.moved()
        assert report(port, "/readyz") == (200, {"ready": True, "missing": []})
        missing.append("Kafka does not answer")
        assert report(port, "/livez") == (200, {"live": True, "reason": "the loop moves"})
        assert report(port, "/readyz") == (
            503,
            {"ready": False, "missing": ["Kafka does not answer"]},
        )
        now[0] += LIVE_S + 1
        status, said = report(port, "/livez")
        assert (status, said["live"]) == (503, False)
        assert "has not moved for 121 s" in said["reason"]
        probes.begins = lambda: True
        assert report(port, "/livez")[0] == 200, "to begin may take long"


def test_a_port_in_use_is_refused_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(UsageError) as refused:
            MetricsServer(address, "metrics.capture", registry_of(samples), Probes())
    assert f'metrics.capture = "{address}": cannot listen there: ' in str(refused.value)
    assert "another address" in refused.value.hint


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machine_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="cannot listen there"):
        MetricsServer(f"{host}:9464", "metrics.apply", registry_of(samples), Probes())
