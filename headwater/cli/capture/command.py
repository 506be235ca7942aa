"""``headwater capture``: the stream to Kafka, until it is stopped."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.log_events import LogEvent
from headwater.cli.common.context import captured, config_path

if TYPE_CHECKING:
    from cdc.capture.loop import Capture
    from cdc.config import Config

_REPORT_S = 10.0
_GIVE_BACK_EVERY = 60
"""Reports: ten minutes."""
_STOP_S = 4.0
"""A stop that takes longer waits for a server that answers nothing."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("capture")(capture)


def capture(
    ctx: typer.Context,
    json_logs: Annotated[
        bool,
        typer.Option(
            "--json", help="Log as JSON lines (the default when output is not a terminal)."
        ),
    ] = False,
) -> None:
    """Publish every committed change to Kafka, in commit order, until stopped.

    Run `headwater init` first. One capture process serves one source; a second one exits with an
    error. While the source or Kafka does not answer, at the start too, it connects again for up to
    `capture.reconnect_s` seconds. On SIGTERM or Ctrl-C it waits until Kafka has acknowledged what
    was published, confirms that to the source, and exits.

    Exit codes: 0 stopped by a signal, 1 an error that a retry does not fix.

    \b
    Examples:
      headwater capture
      headwater --config shop.toml capture 2>> capture.log
    """
    import gc

    from cdc.capture.memory_allocator import keep_freed_memory
    from cdc.logs import configure
    from cdc.metrics.probes import Probes
    from cdc.shutdown_signals import told_to_stop
    from headwater.cli.capture.signals import Listener
    from headwater.metrics import capture_metrics

    config = captured(ctx)
    configure(json_lines=json_logs or not sys.stderr.isatty())
    stopping = told_to_stop(_force)
    keep_freed_memory()
    run = _connected(config, stopping)
    if run is None:
        return
    listener = Listener(config, config_path(ctx)) if config.capture.signals else None
    # What start-up made stays: the collector need not go over it, 20 ms each time, ever again.
    gc.freeze()
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(run, done), daemon=True)
    reporter.start()
    if listener is not None:
        listener.start()
    probes = Probes()
    probes.begins = lambda: not run.streaming

    def stops() -> bool:
        probes.moved()
        return stopping.is_set()

    try:
        with capture_metrics(config, run, probes):
            run.run(stops)
    finally:
        done.set()
        if listener is not None:
            listener.close()
        run.close()


def _connected(config: Config, stopping: threading.Event) -> Capture | None:
    """As soon as source and Kafka answer; None when it is stopped before. Raises ``SourceError``
    when they have not for as long as a running capture would wait."""
    from contextlib import ExitStack
    from importlib.metadata import version

    import structlog

    from cdc.capture.loop import Capture
    from cdc.capture.reconnection import Reconnect
    from cdc.errors import RetryableError
    from headwater.metrics import probes_alone

    log = structlog.get_logger("capture")
    reconnect = Reconnect(config.capture.reconnect_s, config.capture.silence_s)
    missing: list[str] = []
    with ExitStack() as waiting:
        while not stopping.is_set():
            try:
                return Capture(config, version("headwater"))
            except RetryableError as error:
                # No session was ever there, however long the attempt took.
                pause_s = reconnect.after(error, 0.0, False, time.monotonic())
                log.warning(LogEvent.RECONNECTING, reason=str(error), in_s=pause_s)
                if not missing:
                    waiting.enter_context(probes_alone(config, missing))
                missing[:] = [str(error)]
                stopping.wait(pause_s)
    return None


def _force() -> None:
    forced = threading.Timer(_STOP_S, _end)
    forced.daemon = True
    forced.start()


def _end() -> None:
    """End at once. What was not confirmed comes again: this is no worse than a crash."""
    from headwater.cli.common.output import print_error

    print_error(
        f"not stopped after {_STOP_S:g} s, ended by force: a server does not answer; nothing that "
        "Kafka has not acknowledged was confirmed, the next start publishes it"
    )
    os._exit(1)


def _report(run: Capture, done: threading.Event) -> None:
    """Every few seconds one line of where capture stands, while something happens."""
    import structlog

    from cdc.capture.memory_allocator import give_back_memory
    from cdc.lsn import format_lsn

    log = structlog.get_logger("capture")
    before = turns = 0
    while not done.wait(_REPORT_S):
        turns += 1
        if turns % _GIVE_BACK_EVERY == 0:
            give_back_memory()
        now = run.counters
        if now.records != before:
            log.info(
                LogEvent.CAPTURED,
                records=now.records,
                per_s=round((now.records - before) / _REPORT_S),
                confirmed_lsn=format_lsn(now.confirmed),
                behind_bytes=max(0, now.received - now.confirmed),
            )
            before = now.records
