"""A shop whose alarms a real Prometheus sees, and a receiver of messages."""

from __future__ import annotations

import signal
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import psycopg
from standardwebhooks.webhooks import Webhook as Receiver

from cdc.alarms.rules import prometheus_rules
from tests.support.commands.deployment import Deployment
from tests.support.commands.scraping import scrape
from tests.support.servers.forked_command import Child
from tests.support.servers.prometheus import Prometheus
from tests.support.servers.proxy import Proxy
from tests.support.servers.skewed_clock import SkewedClock
from tests.support.waiting import wait_until

SEEN_S: Final = 60.0
"""15 on a machine that is not busy: the times are printed."""
ENDED_S: Final = 180.0
SECRET: Final = "whsec_" + b64encode(b"s" * 32).decode()
RESTLESS: Final = "HW003"
RESTLESS_MINUTE_S: Final = 3.0
HEARTBEAT_S: Final = 2.0
STALLED_S: Final = 5.0
SNAPSHOT_STANDS_S: Final = 10


@dataclass(slots=True)
class Shop:
    deployment: Deployment
    prometheus: Prometheus
    store: Proxy
    ports: dict[str, int]
    processes: dict[str, Child]
    received: list[dict[str, Any]]
    """Messages to the webhook, verified."""
    redis: Any
    clock: SkewedClock
    """The source's."""
    old: psycopg.Connection[Any]
    """A transaction on the source that is open from the beginning; snapshots wait for its end."""
    old_s: float
    times: dict[str, float] = field(default_factory=dict)
    """From condition to pending, in seconds, by code."""

    def view(self, name: str) -> str:
        return f"{self.deployment.name}_{name}"

    def state(self, process: str, name: str, view: str = "") -> str:
        """Of a state set, as the process exports it."""
        labels = (self.deployment.name, self.view(view)) if view else (self.deployment.name,)
        found = scrape(self.ports[process])
        return next(at[1] for at, value in found.items()
                    if at[0] == name and at[2:] == labels and value == 1)  # fmt: skip

    def fires(self, code: str, held_s: float) -> None:
        """An alarm whose condition has held since ``held_s``: seen in time, and firing then."""

        def firing() -> bool:
            found = self.prometheus.alerts().get(code, [])
            return any(alert.state == "firing" for alert in found)

        wait_until(firing, f"{code} to fire")
        (first, *_) = sorted(alert.since_s for alert in self.prometheus.alerts()[code])
        self.times[code] = first - held_s
        assert self.times[code] <= SEEN_S, f"{code} was seen {self.times[code]:.1f} s late"

    def quiet(self) -> None:
        """Nothing is wrong, and no alarm fires."""
        wait_until(lambda: not self.alarmed(), "all alarms to end")

    def recovers(self, *codes: str) -> None:
        """These alarms end."""
        wait_until(lambda: not self.alarmed() & {*codes}, f"{', '.join(codes)} to end", ENDED_S)

    def alarmed(self) -> set[str]:
        return set(self.prometheus.alerts()) - {RESTLESS}

    @contextmanager
    def frozen(self, process: str) -> Iterator[float]:
        """A process that does nothing; since when."""
        self.processes[process].send_signal(signal.SIGSTOP)
        try:
            yield time.time()
        finally:
            self.processes[process].send_signal(signal.SIGCONT)


@contextmanager
def receiving(received: list[dict[str, Any]]) -> Iterator[str]:
    """A webhook that takes what is signed."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(Receiver(SECRET).verify(body, dict(self.headers)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/alarms"
    finally:
        server.shutdown()
        server.server_close()


def rules() -> str:
    """Those that we ship, faster."""
    begin = "      - alert: "
    quick, slow = (prometheus_rules(minute_s).split(begin) for minute_s in (1, RESTLESS_MINUTE_S))
    pairs = zip(quick, slow, strict=True)
    parts = [late if f"code: {RESTLESS}\n" in late else soon for soon, late in pairs]
    (at,) = [number for number, part in enumerate(parts) if "code: HW012\n" in part]
    assert "> 600" in parts[at]
    parts[at] = parts[at].replace("> 600", f"> {SNAPSHOT_STANDS_S}")
    return begin.join(parts)
