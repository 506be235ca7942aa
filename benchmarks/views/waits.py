"""Read your own writes: ``headwater.Views.wait``, which the command calls, beside a wait over HTTP.

After each commit both are asked for its LSN at the same time.
"""

from __future__ import annotations

import http.client
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final

from benchmarks.capture.latency import percentile
from benchmarks.capture.process import capturing, slot_of
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import (
    Setting,
    create_table,
    drop_table,
    headwater,
    init_source,
    load,
    settle,
)
from benchmarks.traffic import inserts, traffic
from benchmarks.views.process import Declared, applying, declare, open_stores
from cdc.errors import FatalError
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from stack.child_process import Process, tail
from stack.ports import free_port

COMMITS: Final = 400
WARM_UP: Final = 20
"""Not counted."""
RATE_PER_S: Final = 50
"""Of other commits meanwhile."""
ORDERS: Final = 100_000
_SOURCE, _TABLE, _VIEW = "waited", "waited_orders", "waited_in_redis"
_LONGEST_PAUSE_S: Final = 0.05
"""Between two commits: whoever polls is met at any moment of its pause."""
_TIMEOUT_S: Final = 30
_BUILD_S: Final = 600
_START_S: Final = 60.0
_POLL_S: Final = 0.1
_TRAFFIC_S: Final = 3_600
"""More than it takes: it is ended before."""
_CLIENT: Final = """
import sys
import headwater
with headwater.Views(sys.argv[1]) as views:
    print("ready", flush=True)
    for line in sys.stdin:
        views.wait(sys.argv[2], lsn=line.strip(), timeout_s=float(sys.argv[3]))
        print("reached", flush=True)
"""
"""An application, in a process of its own as the server is."""
Wait = Callable[[str], None]
"""Until the view holds what was committed below an LSN. Raises ``FatalError``."""


def measure_waits(setting: Setting) -> dict[str, float]:
    """p50 and p99 in ms of both, from the moment at which the LSN is known, after COMMIT."""
    stores = open_stores(setting)
    orders = setting.scaled(ORDERS, 10_000)
    with setting.connect() as conn:
        create_table(conn, USUAL, _TABLE)
        load(setting, conn, USUAL, _TABLE, orders, orders)
        settle(conn, _TABLE)
        init_source(setting, _SOURCE, _TABLE)
        declare(setting, _SOURCE, stores, [Declared(_VIEW, "redis", f"select * from {_TABLE}")])
        with capturing(setting, _SOURCE), applying(setting, _SOURCE, _VIEW) as process:
            built = ("wait", _VIEW, "--timeout", str(_BUILD_S))
            headwater(setting, _SOURCE, *built, log="wait", timeout_s=2 * _BUILD_S)
            with (
                _client(setting) as by_client,
                _served(setting) as by_http,
                traffic(setting, "wait", _beside(orders), RATE_PER_S, _TRAFFIC_S) as others,
            ):
                took = _both(setting, conn, by_client, by_http, orders)
                others.check()
                process.check()
        drop_slot(conn, slot_of(_SOURCE))
        drop_table(conn, _TABLE)
    return figures(*took)


def figures(client_ms: list[float], http_ms: list[float]) -> dict[str, float]:
    """Of how long each took. Pure."""
    client, by_http = sorted(client_ms), sorted(http_ms)
    found = {
        "wait_p50_ms": percentile(client, 50),
        "wait_p99_ms": percentile(client, 99),
        "wait_http_p50_ms": percentile(by_http, 50),
        "wait_http_p99_ms": percentile(by_http, 99),
    }
    return {**found, "wait_http_over_p99_ms": found["wait_http_p99_ms"] - found["wait_p99_ms"]}


def _beside(orders: int) -> list[str]:
    """New rows, above those that are changed here."""
    return [one.replace("%(first)s", f"%(first)s + {orders}").replace(
        "%(last)s", f"%(last)s + {orders}") for one in inserts(_TABLE)]  # fmt: skip


def _both(
    setting: Setting, conn: Connection, by_client: Wait, by_http: Wait, orders: int
) -> tuple[list[float], list[float]]:
    """How long each of the two took in ms, of each commit."""
    count, chance = WARM_UP + setting.scaled(COMMITS, 20), random.Random(1)
    took: tuple[list[float], list[float]] = ([], [])
    with ThreadPoolExecutor(2) as threads:
        for number in range(count):
            lsn = _commit(conn, 1 + number * 7919 % orders)
            began = time.monotonic()
            asked = [threads.submit(_took_ms, wait, lsn, began) for wait in (by_client, by_http)]
            for of, one in zip(took, asked, strict=True):
                ms = one.result()
                if number >= WARM_UP:
                    of.append(ms)
            setting.watch("waits", (number + 1) / count)
            time.sleep(chance.uniform(0, _LONGEST_PAUSE_S))
    return took


def _commit(conn: Connection, row: int) -> str:
    """Change a row; what an application then waits for."""
    with translated("writing"):
        conn.execute(f"update public.{_TABLE} set total = total + 1 where id = {row}".encode())
        (lsn,) = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone() or ("",)
    return str(lsn)


def _took_ms(wait: Wait, lsn: str, began: float) -> float:
    wait(lsn)
    return (time.monotonic() - began) * 1000


@contextmanager
def _client(setting: Setting) -> Iterator[Wait]:
    log = setting.log("wait-client")
    command = [sys.executable, "-c", _CLIENT, str(setting.config(_SOURCE)), _VIEW, str(_TIMEOUT_S)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        question, answer = child.stdin, child.stdout

        def await_line(expected: str) -> None:
            if answer.readline() != f"{expected}\n":
                raise FatalError(f"headwater.Views.wait has failed\n{tail(log)}")

        def wait(lsn: str) -> None:
            question.write(f"{lsn}\n")
            question.flush()
            await_line("reached")

        try:
            await_line("ready")  # a connection to the server would be idle, and closed, meanwhile
            yield wait
        finally:
            child.kill()


@contextmanager
def _served(setting: Setting) -> Iterator[Wait]:
    """``headwater serve``, and one client whose connection stays open."""
    port = free_port(set())
    with setting.config(_SOURCE).open("a", encoding="utf-8") as config:
        config.write(f'[serve]\nlisten = "127.0.0.1:{port}"\nspool = "{setting.home / "serve"}"\n')
    command = ["--config", str(setting.config(_SOURCE)), "serve", "--json"]
    process = Process("headwater serve", command, setting.log("serve"), setting.guardian)
    process.start()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * _TIMEOUT_S)

    def asked(path: str) -> tuple[int, bytes]:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read()

    def wait(lsn: str) -> None:
        try:
            status, said = asked(f"/views/{_VIEW}/wait?lsn={lsn}&timeout={_TIMEOUT_S}")
        except (OSError, http.client.HTTPException) as error:
            process.check()
            raise FatalError(f"wait over HTTP: {error!r}\n{tail(process.log)}") from error
        if status != http.HTTPStatus.OK:
            raise FatalError(f"wait over HTTP: {status}: {said.decode()}\n{tail(process.log)}")

    try:
        _await_server(process, lambda: asked("/livez")[0] == http.HTTPStatus.OK, client.close)
        yield wait
    finally:
        client.close()
        process.ask_to_stop()
        process.stop()


def _await_server(process: Process, live: Callable[[], bool], again: Callable[[], None]) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            if live():
                return
        again()
        process.check()
        time.sleep(_POLL_S)
    raise FatalError(f"{process.name} does not answer\n{tail(process.log)}")
