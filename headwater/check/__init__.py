"""What has to hold before capture can run: a list of small checks that return findings.

Nothing is changed. Every check runs, so that one reading shows all there is to do; where a server
is out of reach, that is one finding in place of those that would ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.kafka.broker import Broker
from cdc.kafka.topology import topic_specs
from cdc.source.postgres import Connection, connect
from cdc.source.selection import Table
from headwater.check import source, state, stores, views, wal
from headwater.check.alerts.rows import row_alerts
from headwater.check.ddl_trigger import ddl_events
from headwater.check.debezium.connector import connector, connector_topics
from headwater.check.emit_topics import emit_rights, emit_topics, unnamed_topics
from headwater.check.encoding import encoding
from headwater.check.events.keys import key_values
from headwater.check.events.schemas import schema_registry
from headwater.check.failover import failover
from headwater.check.finding import Finding
from headwater.check.kafka import kafka, topics_database, truncates, view_groups
from headwater.check.producer import producer, record_sizes
from headwater.check.publication import publication

__all__ = ["Finding", "errors_of", "preflight"]

_SOURCE_CHECKS: tuple[Callable[[source.Source], Iterator[Finding]], ...] = (
    source.server,
    encoding,
    source.wal_level,
    source.free_places,
    source.privileges,
    source.tables,
    source.keys,
    key_values,
    publication,
    wal.retention,
    wal.timing,
    wal.slot,
    failover,
    emit_topics,
    emit_rights,
    ddl_events,
    schema_registry,
)

_CONNECTOR_CHECKS: tuple[Callable[[source.Source], Iterator[Finding]], ...] = (
    source.server,
    encoding,
    source.wal_level,
    source.free_places,
    source.tables,
    source.keys,
    connector,
)


def preflight(
    config: Config,
    snapshot_status: Callable[[Connection], str | None],
    *,
    with_views: bool = True,
) -> list[Finding]:
    """All findings about source, views, Kafka and stores, in that order.

    ``snapshot_status`` tells how far ``headwater init`` came: None, running or complete. Views
    and their stores concern what comes after capture, and can be left out.
    """
    findings: list[Finding] = []
    subject: source.Source | None = None
    try:
        with connect(config.source.dsn, application_name="headwater check") as conn:
            status = snapshot_status(conn)
            subject = source.Source(
                config, conn, known=status is not None, initialised=status == "complete"
            )
            checks = _CONNECTOR_CHECKS if config.source.of_debezium else _SOURCE_CHECKS
            more = [views.views, row_alerts] if with_views else []
            for check in (*checks, *more):
                findings += _run(check.__name__.replace("_", " "), check, subject)
            if with_views:
                findings += _run("state database", state.state, config, subject)
    except HeadwaterError as error:
        findings.append(Finding("error", "source", error.message, error.hint))
        if with_views and subject is None:
            findings += _run("state database", state.state, config, None)
    tables = subject.tables if subject else ()
    if config.source.of_debezium:
        findings += _of_connector(config, tables)
        return [*findings, *(_of_views(config) if with_views else [])]
    new = subject.new_tables if subject else ()
    specs = topic_specs(config, [table for table in tables if table.label not in new])
    initialised = subject is not None and subject.initialised
    address = config.kafka.bootstrap_servers
    findings += _run("producer", producer, config)
    with Broker(address, config.kafka) as broker:
        asked = _run("kafka", kafka, broker, address, specs, initialised)
        findings += asked
        if not errors_of(asked[:1]):  # else it is out of reach, and has been named
            findings += _run("record sizes", record_sizes, config, broker, specs)
            if subject is not None:
                outbox = subject.outbox_tables
                findings += _run("emit topics", unnamed_topics, config, broker, outbox)
                if with_views:  # init has more to say of it
                    findings += _run("topics", topics_database, config, broker, tables)
                    findings += _run("truncates", truncates, config, broker, tables)
                    findings += _run("consumer groups", view_groups, config, broker)
    return [*findings, *(_of_views(config) if with_views else [])]


def _of_connector(config: Config, tables: Sequence[Table]) -> list[Finding]:
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        return _run("kafka", connector_topics, config, broker, tables)


def _of_views(config: Config) -> list[Finding]:
    return [*_run("views", views.applied, config), *_run("stores", stores.stores, config)]


def errors_of(findings: Sequence[Finding]) -> list[Finding]:
    """Those that stop capture."""
    return [finding for finding in findings if finding.level == "error"]


def _run(name: str, check: Callable[..., Iterator[Finding]], *given: Any) -> list[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(check(*given))
    except HeadwaterError as error:
        findings.append(Finding("error", name, error.message, error.hint))
    return findings
