"""The shop's changes in Kafka: published by capture, or by a real Debezium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import psycopg

from cdc.lsn import parse_lsn
from cdc.topics import table_topic
from tests.oracle.debezium import debezium
from tests.support.commands.deployment import Deployment
from tests.support.consumers import workload
from tests.support.waiting import wait_until

PARTITIONS: Final = 2
# The connector as it is when nothing is set; what the tests' oracle sets is set back.
_UNSET: Final = {
    "skipped.operations": "t",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "interval.handling.mode": "numeric",
    "binary.handling.mode": "bytes",
    "snapshot.mode": "initial",
    "topic.creation.default.partitions": str(PARTITIONS),
    **{
        f"{part}.converter{setting}": value
        for part in ("key", "value")
        for setting, value in (
            ("", "org.apache.kafka.connect.json.JsonConverter"),
            (".schemas.enable", "true"),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Published:
    """Topics of the shop's tables, and the database that they are equal to."""

    bootstrap: str
    prefix: str
    source: str

    def topic(self, table: str) -> str:
        return table_topic(self.prefix, "public", table)

    @property
    def topics(self) -> list[str]:
        return [self.topic(table) for table in (*workload.NAMES, *workload.SPECIAL)]


def by_capture(
    deployment: Deployment, settings: Mapping[str, str], full: bool = False
) -> Published:
    """All changes, by ``init`` and ``capture`` with the preset and further ``settings``."""
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    events = ["[events]", 'preset = "debezium"', *lines]
    deployment.extra = "\n".join([f"partitions = {PARTITIONS}", *events])
    workload.prepare(deployment.dsn, full)
    deployment.init()
    with deployment.running("capture") as capture:
        workload.change(deployment.dsn)
        deployment.captured(capture)
    return Published(deployment.bootstrap, deployment.name, deployment.dsn)


def by_debezium(
    deployment: Deployment, settings: Mapping[str, str], full: bool = False
) -> Published:
    """All changes, by Debezium as it is when nothing but ``settings`` is set."""
    dsn, name = deployment.dsn, deployment.name
    workload.prepare(dsn, full)
    deployment.execute("create publication shop for all tables")
    place, given = deployment.home / "debezium", {**_UNSET, **settings}
    with debezium(dsn, deployment.bootstrap, name, "shop", place, given):
        workload.change(dsn)
        _await_confirmed(dsn, name)
    return Published(deployment.bootstrap, name, dsn)


def _await_confirmed(dsn: str, slot: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        end = parse_lsn(row[0])

        def confirmed() -> bool:
            # Moves the log on: Debezium confirms a transaction when it has seen a later one.
            connection.execute("select pg_logical_emit_message(true, 'end', '')")
            found = connection.execute(
                "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s",
                [slot],
            ).fetchone()
            return found is not None and found[0] is not None and parse_lsn(found[0]) >= end

        wait_until(confirmed, "Debezium to confirm what was committed")
