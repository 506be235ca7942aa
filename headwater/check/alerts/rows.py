"""Checks of alerts on rows: conditions, tables and columns, as `headwater serve` takes them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from cdc.errors import HeadwaterError, RetryableError
from cdc.sslmode import is_here
from headwater.alerts.rule import ALL
from headwater.alerts.service import fitting_relation
from headwater.api.changes.event_position import refuse_unread
from headwater.api.tables import Tables
from headwater.check.finding import Finding
from headwater.check.source import Source


def row_alerts(source: Source) -> Iterator[Finding]:
    """One finding for each alert of ``[alerts.rows]``. Before ``headwater init`` no table is
    captured, and nothing can be said."""
    config = source.config
    if not config.alerts.rows or not source.initialised:
        return
    tables = Tables(config)
    for name, alert in config.alerts.rows.items():
        check = f"alert {name}"
        try:
            refuse_unread(config.form)
            relation = fitting_relation(config, name, tables.find)
        except RetryableError as error:  # of the state database, as long as apply does not run
            yield Finding("warning" if alert.view else "error", check, error.message, error.hint)
            continue
        except HeadwaterError as error:
            yield Finding("error", check, error.message, error.hint)
            continue
        sent = alert.columns if ALL not in alert.columns else [one.name for one in relation.columns]
        treated = [
            f"{one.name} as published ({one.treatment.kind})"
            for one in relation.columns
            if one.name in sent and one.treatment is not None
        ]
        shown = "all columns" if ALL in alert.columns else ", ".join(alert.columns)
        what = f"the key and {shown}" if shown else "the key alone"
        of = f"view {alert.view}" if alert.view else relation.name
        message = f"changes of {of} go to {urlsplit(alert.webhook).hostname}, with {what}"
        yield Finding("ok", check, "; ".join([message, *treated]))
        yield from unencrypted(name, alert.webhook)
        yield from same_receiver(name, alert.webhook, config.alerts.webhook)


def unencrypted(name: str, webhook: str) -> Iterator[Finding]:
    """A warning where messages leave this machine by plain HTTP."""
    url = urlsplit(webhook)
    if url.scheme == "http" and not is_here(url.hostname or ""):
        message = (
            f"alerts.rows.{name}.webhook: http:// to {url.hostname}: messages are signed, but can "
            "be read by anybody between"
        )
        yield Finding("warning", f"alert {name}", message, "use https://")


def same_receiver(name: str, webhook: str, of_alarms: str) -> Iterator[Finding]:
    """A warning where the alarm that messages are not taken goes to who does not take them."""
    own, other = urlsplit(webhook), urlsplit(of_alarms)
    if own.netloc.rpartition("@")[2] == other.netloc.rpartition("@")[2]:
        message = (
            f"alerts.rows.{name}.webhook: alarms go to {own.hostname}, too (alerts.webhook): while "
            "it is away, nobody is told that messages wait"
        )
        hint = "send alarms to another receiver, or alarm by Prometheus: docs/alarms.md"
        yield Finding("warning", f"alert {name}", message, hint)
