"""``python -m tests.oracle.record_forms``: what Debezium emits in its other modes.

One connector per combination of modes, with schemas. Each reads the rows of every case in a
snapshot, then the same rows again in the stream. A value at which a connector stops is recorded as
no value. Values of extensions come from a server that has them: ``--contrib DSN``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition

from cdc.source.types import load_types
from stack import servers
from stack.debezium import Worker, worker
from tests.oracle import record
from tests.oracle.cases import CASES, EXTENSION_CASES, EXTENSIONS, TYPES
from tests.oracle.debezium import _streams, _url
from tests.oracle.forms import EXTRAS, FORMS, LARGE, PRESET, STATEMENTS, TABLES
from tests.oracle.record import Server
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
FORMS_OF_VALUES = HERE / "debezium_forms.json"
FORMS_OF_EXTENSIONS = HERE / "debezium_extension_forms.json"
FORM_OF_EVENTS = HERE / "debezium_form_events.json"

_CONVERTERS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}
_SETTINGS: Final = {
    **_CONVERTERS,
    "snapshot.mode": "initial",
    "event.processing.failure.handling.mode": "warn",
}
_START_S: Final = 240
_END: Final = 5000
_LAST: Final = f'"id":{_END}'
"""In the last record of all."""
_LONGEST: Final = 20_000
"""Characters of a payload that is kept."""
_STREAMED: Final = 1000
"""Added to the ids of rows that are streamed."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--contrib", metavar="DSN", help="a server that has the extensions")
    contrib = arguments.parse_args().contrib
    with tempfile.TemporaryDirectory(prefix="headwater-oracle-") as scratch:
        home = Path(scratch) / "stack"
        try:
            running = servers.start(home, ["postgres", "kafka"])
            bootstrap, at = running.kafka_bootstrap, Path(scratch)
            with record._database(running.postgres_dsn, bootstrap, at, "oracle_forms") as server:
                _write(FORMS_OF_VALUES, _forms(server, TYPES + TABLES, CASES, EXTRAS))
            with record._database(running.postgres_dsn, bootstrap, at, "oracle_story") as server:
                _write(FORM_OF_EVENTS, _story(server))
            if contrib:
                with record._database(contrib, bootstrap, at, "oracle_more_forms") as server:
                    _write(FORMS_OF_EXTENSIONS, _forms(server, EXTENSIONS, EXTENSION_CASES, {}))
        finally:
            servers.purge(home)


def _story(server: Server) -> dict[str, Any]:
    """The story with the modes of the preset, its truncate and the records of transactions."""
    recorded = record._events(
        server,
        record.TRANSACTIONS,
        {**_CONVERTERS, **PRESET, "skipped.operations": "none"},
    )
    schemas: list[Any] = []

    def part(text: str | None) -> list[Any] | None:
        return None if text is None else _numbered(schemas, text)

    events = [
        {**event, "key": part(event["key"]), "value": part(event["value"])}
        for event in recorded.pop("events")
    ]
    return {**recorded, "schemas": schemas, "events": events}


def _numbered(schemas: list[Any], text: str) -> list[Any]:
    """The number of a schema, which is added if it is new, and the payload."""
    schema, payload = split(text)
    if schema not in schemas:
        schemas.append(schema)
    return [schemas.index(schema), payload if len(payload) < _LONGEST else ""]


def _write(path: Path, recorded: dict[str, Any]) -> None:
    """One line a case."""
    parts = []
    for name, of in recorded.items():
        if isinstance(of, list):
            lines = ",\n ".join(json.dumps(one, ensure_ascii=False) for one in of)
            parts.append(f'"{name}": [\n {lines}\n]')
        else:
            parts.append(f'"{name}": {json.dumps(of, ensure_ascii=False)}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _forms(
    server: Server,
    types: str,
    cases: Sequence[tuple[str, Sequence[str]]],
    extras: Mapping[str, int],
) -> dict[str, Any]:
    with record._connect(server) as connection:
        connection.execute(types)
        for number, (declaration, _) in enumerate(cases):
            connection.execute(
                f"create table v{number} (id int primary key, v {declaration}, x int)"
            )
        connection.execute("create publication oracle for all tables")
        connection.execute("select pg_create_logical_replication_slot('peek', 'pgoutput')")
        _insert(connection, cases, 0)
        texts, declared = record._texts(connection)
        with _connectors(server) as running:
            defaults = _defaults(running)
            _insert(connection, cases, _STREAMED)
            if extras:
                for statement in STATEMENTS:
                    connection.execute(statement.replace("{large}", LARGE))
            connection.execute("insert into v0 values (%s)", [_END])
            emitted = {form: _emitted(server, form, len(cases), extras) for form in FORMS}
        kinds = load_types(connection)
        recorded = []
        for number, (declaration, literals) in enumerate(cases):
            oid, typmod = declared[f"v{number}"]
            kind = kinds[oid]
            forms = {}
            for form in FORMS:
                found = emitted[form].get(f"v{number}", {})
                snapshot = [found.get(row) for row in range(len(literals))]
                stream = [found.get(row + _STREAMED) for row in range(len(literals))]
                of_form = {"schema": found.get("schema"), "stream": stream}
                if snapshot != stream:
                    of_form["snapshot"] = snapshot
                forms[form] = of_form
            recorded.append(
                {
                    "declaration": declaration,
                    "type": record._structure(kind),
                    "typmod": typmod if typmod != -1 else kind.typmod,
                    "texts": [texts[f"v{number}", row] for row in range(len(literals))],
                    "forms": forms,
                }
            )
        return {
            "versions": record._versions(connection),
            "defaults": defaults,
            "modes": FORMS,
            "cases": recorded,
            "extras": [
                {"form": form, "table": table, "events": emitted[form].get(table, {}).get("events")}
                for form in FORMS
                for table in extras
            ],
        }


def _defaults(running: Worker) -> dict[str, str]:
    """What the connector itself says its modes are when nothing is set."""
    path = "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config"
    return {
        setting["name"]: setting["default_value"]
        for setting in running._ask("GET", path)
        if setting["name"]
        in (*PRESET, "skipped.operations", "tombstones.on.delete", "unavailable.value.placeholder")
    }


def _insert(connection: Any, cases: Sequence[tuple[str, Sequence[str]]], first: int) -> None:
    for number, (declaration, literals) in enumerate(cases):
        insert = f"insert into v{number} values (%s, cast(%s::text as {declaration}), 1)"
        for row, literal in enumerate(literals):
            connection.execute(insert, (first + row, literal))


def _await_stream(server: Server, name: str, running: Worker) -> None:
    wait_until(
        lambda: _streams(server.dsn, name, running),
        f"{name} to stream, see {running.log}",
        _START_S,
    )


@contextmanager
def _connectors(server: Server) -> Iterator[Worker]:
    with ExitStack() as stack:
        running = stack.enter_context(
            worker(server.bootstrap, server.directory, ("-Xms256m", "-Xmx1200m"))
        )
        for form, modes in FORMS.items():
            name = f"{server.name}_{form}"
            settings = _SETTINGS | modes
            stack.enter_context(running.connector(name, _url(server.dsn), "oracle", settings))
            _await_stream(server, name, running)
        yield running


def _emitted(
    server: Server, form: str, cases: int, extras: Mapping[str, int]
) -> dict[str, dict[Any, Any]]:
    """By table: values by id, and the schema of the column; of ``extras`` whole records."""
    prefix = f"{server.name}_{form}.public."
    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap, enable_auto_commit=False, max_poll_records=5000
    )
    try:
        ended = f"{prefix}v0"
        wait_until(lambda: _LAST in str(_read(consumer, [ended])), f"the end of {form}", _START_S)
        topics = [f"{prefix}v{number}" for number in range(cases)]
        read = _read(consumer, [*topics, *(f"{prefix}{table}" for table in extras)])
    finally:
        consumer.close()
    found: dict[str, dict[Any, Any]] = {}
    for number in range(cases):
        of: dict[Any, Any] = found.setdefault(f"v{number}", {})
        for _, value in read[f"{prefix}v{number}"]:
            schema, payload = split(value.decode())
            row = schema["fields"][1]
            names = [field["field"] for field in row["fields"]]
            at = json.loads(payload)["after"]["id"]
            if at != _END and "v" in names:
                of["schema"] = row["fields"][names.index("v")]
                of[at] = _cell(payload)
    for table in extras:
        found[table] = {"events": _whole(read[f"{prefix}{table}"])}
    return found


def _whole(records: list[tuple[bytes | None, Any]]) -> dict[str, Any]:
    """Keys and values, each as the number of its schema and its payload."""
    schemas: list[Any] = []
    parts = [
        [None if text is None else _numbered(schemas, text.decode()) for text in record]
        for record in records
    ]
    return {"schemas": schemas, "records": parts}


def _cell(payload: str) -> str:
    """The JSON of column v, between the other two."""
    begin = payload.index(',"v":') + 5
    return payload[begin : payload.rindex(',"x":1},"source":')]


def split(document: str) -> tuple[Any, str]:
    """Schema and payload of what Connect's JSON converter wrote."""
    assert document.startswith('{"schema":')
    schema, end = json.JSONDecoder().raw_decode(document, 10)
    assert document[end : end + 11] == ',"payload":'
    return schema, document[end + 11 : -1]


def _read(consumer: KafkaConsumer, topics: Sequence[str]) -> dict[str, list[tuple[Any, Any]]]:
    """All records of topics of one partition, together."""
    there = consumer.topics()
    partitions = [TopicPartition(topic, 0) for topic in topics if topic in there]
    found: dict[str, list[tuple[Any, Any]]] = {topic: [] for topic in topics}
    if not partitions:
        return found
    ends = consumer.end_offsets(partitions)
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    while any(len(found[p.topic]) < ends[p] for p in partitions):
        for partition, records in consumer.poll(timeout_ms=500).items():
            found[partition.topic] += [(one.key, one.value) for one in records]
    return found


if __name__ == "__main__":
    main()
