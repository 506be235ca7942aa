"""Structured logs: one event a line on stderr, for people or, as JSON, for machines."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(json_lines: bool) -> None:
    """Set up structlog for this process. Called once, by the command line."""
    pretty = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer() if json_lines else pretty,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
