"""Commands on views that the process which keeps them carries out, with their progress shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater.cli.common.output import err

if TYPE_CHECKING:
    import threading

    from cdc.config import Config
    from headwater.cli.view.progress import Progress
    from jobs.state.views.commands import Answer, Command


def kept_by_state(config: Config, views: Sequence[str]) -> bool:
    """Whether views are kept over mirrors in the state database. Raises ``UsageError`` for some
    that are, and others that are not."""
    from cdc.errors import UsageError
    from verification.view_facts import is_kept_by_state

    mirrored = [view for view in views if is_kept_by_state(config, view)]
    if others := [view for view in views if view not in mirrored and mirrored]:
        raise UsageError(
            f"{', '.join(mirrored)}: computed from mirrors; {', '.join(others)}: not",
            "run one command for each group",
        )
    return bool(mirrored)


def over_mirrors(config: Config, views: Sequence[str], as_json: bool) -> list[str]:
    """Those of some views that are kept over mirrors. Raises ``UsageError`` for some of both kinds
    where the answer is one document."""
    if as_json:
        return list(views) if kept_by_state(config, views) else []
    return [view for view in views if kept_by_state(config, [view])]


def command(kind: str, view: str, **arguments: Any) -> Command:
    from jobs.state.views.commands import Command

    return Command(kind, view, arguments)


def carried_out(reload: Callable[[], Config], commands: Sequence[Command]) -> list[Answer]:
    """By the `headwater apply` that runs, else by this process; the answers in their order."""
    from jobs.run.commands.client import asked

    config = reload()
    with telling() as teller:
        with _stoppable() as stopping:
            found = asked(config, commands, teller, stopping)
        if found is not None:
            return found
        from cdc.shutdown_signals import told_to_stop
        from jobs.run.process import carry_out
        from jobs.spark.session import spark_session
        from jobs.state.server.apply_lock import InUseError

        with spark_session(config) as spark:
            stopping = told_to_stop()  # after Spark, which takes SIGINT for itself
            try:
                return carry_out(spark, config, commands, reload, stopping, teller)
            except InUseError:  # by an apply that was just starting, mostly
                if (found := asked(config, commands, teller, stopping)) is None:
                    raise
                return found


def result(reload: Callable[[], Config], wanted: Command) -> dict[str, Any]:
    """The result of one command. Raises what it failed with."""
    (found,) = carried_out(reload, [wanted])
    if found.error is not None:
        raise found.error
    return found.result or {}


@contextmanager
def telling() -> Iterator[Progress]:
    """Says on stderr what is being done; so do the logs, from here on."""
    from cdc.logs import configure
    from headwater.cli.view.progress import Progress

    configure(json_lines=not sys.stderr.isatty())
    progress = Progress(err())
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set; afterwards both do what they did."""
    import signal

    from cdc.shutdown_signals import told_to_stop

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told_to_stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
