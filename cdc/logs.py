"""Structured logs: one event a line on stderr, for people or, as JSON, for machines."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import structlog
from structlog.typing import EventDict

from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent

_SHOWN: Final = 3
SPARK_LOG: Final = "HEADWATER_SPARK_LOG"
"""The variable by which Spark's JVM, started by this process, knows its form (``log4j2.properties``
of ``jobs/spark``)."""


def configure(json_lines: bool) -> None:
    """Set up structlog for this process. Called once, by the command line."""
    if json_lines:
        os.environ[SPARK_LOG] = "json"
    else:
        os.environ.pop(SPARK_LOG, None)
    pretty = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    form = [structlog.processors.JSONRenderer()] if json_lines else [shortened, below, pretty]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *form,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def shortened(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A long list, as a batch's sample is, for people: its ends and how many there are."""
    for name, value in event.items():
        if isinstance(value, list) and len(value) > _SHOWN:
            event[name] = f"{value[0]}..{value[-1]} of {len(value)}"
    return event


def below(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A trace, for people: behind its event, on lines of its own."""
    if "trace" in event:
        event["stack"] = event.pop("trace")
    return event


@contextmanager
def faults_logged(log: Any, event: LogEvent) -> Iterator[None]:
    """A fault of ours in the block is a warning: what follows is done all the same."""
    try:
        yield
    except HeadwaterError as error:
        log.warning(event, error=str(error))
