"""``python -m tests.oracle.record``: run Debezium and write what it emitted beside this module.

Needed only when the version of Debezium or the cases change. Values of extensions come from a
server that has them: ``--contrib DSN``, without which their file stays as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from cdc.protocol.messages import Insert, RelationMessage
from cdc.protocol.pgoutput import decode
from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import WIRE_OPTIONS
from cdc.source.types import load_types
from stack import servers
from stack.jars_lock import DEBEZIUM, KAFKA
from tests.oracle import story
from tests.oracle.cases import CASES, EXTENSION_CASES, EXTENSIONS, TYPES
from tests.oracle.debezium import debezium, events
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
VALUES = HERE / "debezium_values.json"
EXTENSION_VALUES = HERE / "debezium_extension_values.json"
EVENTS = HERE / "debezium_events.json"
TRANSACTIONS = HERE / "debezium_transactions.json"
RECORDINGS = {
    "oracle_values": VALUES,
    "oracle_events": EVENTS,
    "oracle_transactions": TRANSACTIONS,
}

_PEEK = (
    "select lsn::text, data from pg_logical_slot_peek_binary_changes(%s, null, null, "
    "'proto_version', '1', 'publication_names', 'oracle', 'messages', 'true')"
)
_VALUE = re.compile(rb'\{"before":null,"after":\{"id":(\d+)(?:,"v":(.*))?,"x":1\},"source":.*')


class Server(NamedTuple):
    """A database to record from, the Kafka that Debezium writes to, a folder for its files."""

    dsn: str
    bootstrap: str
    directory: Path
    name: str


def main() -> None:
    """Record values and events."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--contrib", metavar="DSN", help="a server that has the extensions")
    contrib = arguments.parse_args().contrib
    with tempfile.TemporaryDirectory(prefix="headwater-oracle-") as scratch:
        home = Path(scratch) / "stack"
        try:
            running = servers.start(home, ["postgres", "kafka"])
            bootstrap = running.kafka_bootstrap
            for name, path in RECORDINGS.items():
                with _database(running.postgres_dsn, bootstrap, Path(scratch), name) as at:
                    recorded = _values(at, TYPES, CASES) if path == VALUES else _events(at, path)
                _write(path, recorded)
            if contrib:
                with _database(contrib, bootstrap, Path(scratch), "oracle_contrib") as at:
                    _write(EXTENSION_VALUES, _values(at, EXTENSIONS, EXTENSION_CASES))
        finally:
            servers.purge(home)


def _write(path: Path, recorded: dict[str, Any]) -> None:
    path.write_text(json.dumps(recorded, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _database(dsn: str, bootstrap: str, scratch: Path, name: str) -> Iterator[Server]:
    """A database of its own, dropped with its slots at the end."""
    (scratch / name).mkdir()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield Server(
            psycopg.conninfo.make_conninfo(dsn, dbname=name), bootstrap, scratch / name, name
        )
        slots = "from pg_replication_slots where database = %s"
        wait_until(
            lambda: not connection.execute(f"select 1 {slots} and active", [name]).fetchone(),
            f"the slots of {name} to be free",
        )
        connection.execute(f"select pg_drop_replication_slot(slot_name) {slots}", [name])
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _connect(server: Server) -> psycopg.Connection[Any]:
    # `-c search_path` of the wire options would hide the tables from unqualified names.
    options = f"{WIRE_OPTIONS} -c search_path=public"
    return psycopg.connect(server.dsn, options=options, autocommit=True)


def _versions(connection: psycopg.Connection[Any]) -> dict[str, str]:
    version = connection.execute("show server_version").fetchone()
    assert version is not None
    return {"debezium": DEBEZIUM, "kafka": KAFKA, "postgresql": version[0].split()[0]}


def _values(
    server: Server, types: str, cases: Sequence[tuple[str, Sequence[str]]]
) -> dict[str, Any]:
    """A table per case, streamed to Debezium and peeked at by us."""
    with _connect(server) as connection:
        connection.execute(types)
        for number, (declaration, _) in enumerate(cases):
            connection.execute(
                f"create table v{number} (id int primary key, v {declaration}, x int)"
            )
        connection.execute("create publication oracle for all tables")
        connection.execute("select pg_create_logical_replication_slot('peek', 'pgoutput')")
        with debezium(server.dsn, server.bootstrap, server.name, "oracle", server.directory):
            for number, (declaration, literals) in enumerate(cases):
                insert = f"insert into v{number} values (%s, cast(%s::text as {declaration}), 1)"
                for row, literal in enumerate(literals):
                    connection.execute(insert, (row, literal))
            counts = {f"public.v{n}": len(literals) for n, (_, literals) in enumerate(cases)}
            seen = _json_values(server, counts)
        texts, declared = _texts(connection)
        types_by_oid = load_types(connection)
        recorded = []
        for number, (declaration, literals) in enumerate(cases):
            oid, typmod = declared[f"v{number}"]
            kind = types_by_oid[oid]
            recorded.append(
                {
                    "declaration": declaration,
                    "type": _structure(kind),
                    "typmod": typmod if typmod != -1 else kind.typmod,
                    "values": [
                        {"text": texts[f"v{number}", row], "debezium": seen[f"v{number}", row]}
                        for row in range(len(literals))
                    ],
                }
            )
        return {"versions": _versions(connection), "cases": recorded}


def _json_values(server: Server, counts: dict[str, int]) -> dict[tuple[str, int], str | None]:
    """The JSON of column v by table and id; None where Debezium left the column out."""
    found: dict[tuple[str, int], str | None] = {}
    for event in events(server.bootstrap, server.name, counts):
        match = _VALUE.fullmatch(event.value or b"")
        if match is None:
            raise RuntimeError(f"{event.topic}: not the event of a case: {event.value!r}")
        row, value = match.groups()
        text = None if value is None else value.decode()
        found[event.topic.rpartition(".")[2], int(row)] = text
    return found


def _texts(
    connection: psycopg.Connection[Any],
) -> tuple[dict[tuple[str, int], str], dict[str, tuple[int, int]]]:
    """What pgoutput sent for column v by table and id; its type and typmod by table."""
    relations: dict[int, RelationMessage] = {}
    texts: dict[tuple[str, int], str] = {}
    for _, data in connection.execute(_PEEK, ["peek"]):
        message = decode(bytes(data))
        if isinstance(message, RelationMessage):
            relations[message.oid] = message
        elif isinstance(message, Insert):
            row, value, _ = message.new
            assert isinstance(row, bytes)
            assert isinstance(value, bytes)
            texts[relations[message.relation_oid].table, int(row)] = value.decode()
    declared = {
        relation.table: (relation.columns[1].type_oid, relation.columns[1].typmod)
        for relation in relations.values()
    }
    return texts, declared


def _structure(kind: TypeInfo) -> dict[str, Any]:
    """The type without its OID, which differs from run to run."""
    element = _structure(kind.element) if kind.element else None
    return {key: value for key, value in kind._asdict().items() if key != "oid"} | {
        "element": element
    }


def _events(
    server: Server, path: Path, modes: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The story's events, and the WAL they came from; with metadata of transactions on request."""
    counts, settings = story.COUNTS, dict(modes)
    if path == TRANSACTIONS:
        counts = counts | {"transaction": story.TRANSACTION_RECORDS}
        settings |= {"provide.transaction.metadata": "true"}
    with _connect(server) as connection:
        connection.execute(story.TABLES)
        connection.execute("create publication oracle for all tables")
        connection.execute("select pg_create_logical_replication_slot('peek', 'pgoutput')")
        with debezium(
            server.dsn, server.bootstrap, server.name, "oracle", server.directory, settings
        ):
            for transaction in story.TRANSACTIONS:
                with connection.transaction():
                    for statement in transaction:
                        connection.execute(statement)
            emitted = events(server.bootstrap, server.name, counts)
        wal = [[lsn, bytes(data).hex()] for lsn, data in connection.execute(_PEEK, ["peek"])]
        types = load_types(connection)
        used = {
            column.type_oid: _structure(types[column.type_oid])
            for _, data in wal
            if isinstance(message := decode(bytes.fromhex(data)), RelationMessage)
            for column in message.columns
        }
        return {
            "versions": _versions(connection),
            "types": used,
            "keys": story.KEYS,
            "wal": wal,
            "events": [
                {
                    "topic": event.topic,
                    "key": None if event.key is None else event.key.decode(),
                    "value": None if event.value is None else event.value.decode(),
                    "headers": {name: value.decode() for name, value in event.headers},
                }
                for event in emitted
            ],
        }


if __name__ == "__main__":
    main()
