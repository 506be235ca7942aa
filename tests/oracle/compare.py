"""``python -m tests.oracle.compare``: Debezium and capture on the same tables, event by event.

The story, every type of the cases as inserts, updates and deletes, and a random workload. Each
difference is one of those listed on purpose, or is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from kafka import KafkaConsumer

from cdc.kafka.broker import Broker
from cdc.lsn import parse_lsn
from stack import servers
from tests.oracle import story, workload
from tests.oracle.cases import CASES, TYPES
from tests.oracle.debezium import debezium
from tests.oracle.differences import OMITTED, Difference, Emitted, comparable, differences, why
from tests.support.commands.deployment import Deployment
from tests.support.events.recorded_values import DIFFERENCES
from tests.support.waiting import wait_until

THEIRS: Final = "theirs"
OURS: Final = "ours"
DATABASE: Final = "oracle_compare"
_SHOWN: Final = 40


def main() -> None:
    """Compare for each seed; the servers and both captures are started once."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, nargs="*", default=[1])
    arguments.add_argument("--transactions", type=int, default=300, help="for each seed")
    arguments.add_argument("--no-types", action="store_true", help="leave the types out")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-oracle-") as scratch:
        home = Path(scratch) / "stack"
        try:
            running = servers.start(home, ["postgres", "kafka"])
            cases = [] if chosen.no_types else CASES
            with both(running.postgres_dsn, running.kafka_bootstrap, Path(scratch), cases) as ours:
                with psycopg.connect(ours.dsn, autocommit=True) as connection:
                    tell_the_story(connection)
                    change_values(connection, cases)
                    for seed in chosen.seeds:
                        workload.run(connection, seed, chosen.transactions)
                await_both(ours)
                events, explained, faults = compare(running.kafka_bootstrap, cases)
        finally:
            servers.purge(home)
    report(events, explained, faults)
    sys.exit(1 if faults else 0)


@contextmanager
def both(
    dsn: str, bootstrap: str, directory: Path, cases: list[tuple[str, list[str]]]
) -> Iterator[Deployment]:
    """A database with the tables, which Debezium and capture stream to topics of their own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"create database {DATABASE}")
    target = dsn.rsplit("/", 1)[0] + f"/{DATABASE}"
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute(TYPES + story.TABLES + workload.TABLES)
        for number, (declaration, _) in enumerate(cases):
            table = f"create table v{number} (id int primary key, v {declaration}, x int)"
            connection.execute(table.encode())
            if number % 2:
                connection.execute(f"alter table v{number} replica identity full".encode())
    ours = Deployment(directory, OURS, target, bootstrap)
    ours.extra = "partitions = 1\n[capture]\nheartbeat_s = 1"
    done = ours.run("init", "--no-snapshot")
    if done.returncode:
        raise SystemExit(done.stderr)
    publication = f"headwater_{OURS}"
    with (
        debezium(target, bootstrap, THEIRS, publication, directory / "debezium"),
        ours.running("capture"),
    ):
        yield ours


def tell_the_story(connection: psycopg.Connection[Any]) -> None:
    for transaction in story.TRANSACTIONS:
        with connection.transaction():
            for statement in transaction:
                connection.execute(statement.encode())


def change_values(connection: psycopg.Connection[Any], cases: list[tuple[str, list[str]]]) -> None:
    """Each value inserted, left alone by an update, and deleted; and a NULL."""
    for number, (declaration, literals) in enumerate(cases):
        insert = f"insert into v{number} values (%s, cast(%s::text as {declaration}), 1)"
        with connection.transaction():
            for row, literal in enumerate([*literals, None]):
                connection.execute(insert.encode(), (row, literal))
        connection.execute(f"update v{number} set x = 2".encode())
        connection.execute(f"delete from v{number} where id % 2 = 0".encode())


def await_both(ours: Deployment) -> None:
    """Until all that is committed by now is in Kafka, from both."""
    end = ours.wal_end()
    ours.captured()

    def confirmed() -> bool:
        with psycopg.connect(ours.dsn, autocommit=True) as connection:
            row = connection.execute(
                "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s",
                [THEIRS],
            ).fetchone()
        return row is not None and parse_lsn(row[0]) >= end

    wait_until(confirmed, "Debezium to confirm what was committed", 180)


def compare(
    bootstrap: str, cases: list[tuple[str, list[str]]]
) -> tuple[int, Counter[str], list[Difference]]:
    """Events compared, deliberate differences by their names, and all others."""
    known = {
        (f"public.v{number}", expected): f"values: {reason}"
        for number, (declaration, _) in enumerate(cases)
        for (of, _), (reason, expected) in DIFFERENCES.items()
        if of == declaration
    }
    leaves_out = {topic for (topic, _), reason in known.items() if reason.endswith(OMITTED)}
    singles = {f"public.v{n}" for n, (of, _) in enumerate(cases) if of.startswith("float4")}
    events, explained = 0, Counter[str]()
    faults: list[Difference] = []
    with Broker(bootstrap) as broker:
        for topic in sorted(tables(bootstrap)):
            single = topic in singles
            all_theirs = read(broker, f"{THEIRS}.{topic}", single)
            theirs, ours = comparable(all_theirs, read(broker, f"{OURS}.{topic}", single))
            if len(all_theirs) > len(theirs):
                explained["records of theirs alone"] += len(all_theirs) - len(theirs)
            events += len(ours)
            for difference in differences(topic, theirs, ours):
                reason = why(difference, known, leaves_out)
                if reason is None:
                    faults.append(difference)
                else:
                    explained[reason] += 1
    return events, explained, faults


def tables(bootstrap: str) -> set[str]:
    """Topics of either, without the prefix; those that only we have are left out."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        split = [topic.partition(".") for topic in consumer.topics()]
    finally:
        consumer.close()
    return {rest for name, _, rest in split if name in (THEIRS, OURS) and not rest.startswith("__")}


def read(broker: Broker, topic: str, single: bool) -> list[Emitted]:
    """A topic of one partition; none when it does not exist. ``single``: floats are float4."""

    def number(text: str) -> float:
        found: float = struct.unpack("f", struct.pack("f", float(text)))[0]
        return found

    numbers: dict[str, Any] = {"parse_float": number, "parse_int": number} if single else {}
    if not broker.partitions([topic]):
        return []
    end = broker.end_offsets([topic])[topic][0]
    return [
        Emitted(
            json.loads(record.key) if record.key else None,
            json.loads(record.value, **numbers) if record.value else None,
            {name: (value or b"").decode() for name, value in record.headers},
        )
        for record in broker.read(topic, 0, 0, end)
    ]


def report(events: int, explained: Counter[str], faults: list[Difference]) -> None:
    print(f"{events} events compared")
    for reason, count in sorted(explained.items()):
        print(f"  on purpose, {count}: {reason}")
    for fault in faults[:_SHOWN]:
        print(f"{fault.topic} {fault.place} ({fault.change}) {fault.field}:")
        print(f"  Debezium {str(fault.theirs)[:300]!r}\n  ours     {str(fault.ours)[:300]!r}")
    print(f"{len(faults)} differences that are not listed")


if __name__ == "__main__":
    main()
