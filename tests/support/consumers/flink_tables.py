"""Flink SQL that keeps tables of PostgreSQL by Debezium's events (format ``debezium-json``)."""

from __future__ import annotations

from typing import Final

from psycopg.conninfo import conninfo_to_dict

from tests.support.consumers.published import Published

KEYS: Final = {
    "customers": "id",
    "orders": "id",
    "order_lines": "order_id, line",
    "kinds": "id",
    "extremes": "id",
    "articles": "id",
    "visits": "id",
}
READ: Final = {
    "customers": "id INT, name STRING, city STRING",
    "orders": (
        "id BIGINT, customer_id INT, total DECIMAL(10,2), shipped BOOLEAN,"
        " placed TIMESTAMP_LTZ(6), due INT, note STRING"
    ),
    "order_lines": "order_id BIGINT, line SMALLINT, sku STRING, price DOUBLE",
    "kinds": (
        "id INT, i2 SMALLINT, i4 INT, i8 BIGINT, r4 FLOAT, f8 DOUBLE, n DECIMAL(12,3),"
        " yes BOOLEAN, t STRING, vc STRING, c STRING, u STRING, e STRING, j STRING, jb STRING,"
        " ip STRING, b BYTES, d INT, tm BIGINT, ts BIGINT, ts3 BIGINT, tz TIMESTAMP_LTZ(6)"
    ),
    "extremes": "id INT, f8 DOUBLE, r4 FLOAT",
    "articles": "id INT, title STRING, body STRING",
    "visits": "id INT, page STRING",
}
"""The columns in the types that the events have."""
KEPT: Final = {
    table: columns.replace("_LTZ", "").replace("due INT", "due DATE").replace(" d INT", " d DATE")
    for table, columns in READ.items()
}
_CONVERTED: Final = {
    "placed": "CAST(placed AS TIMESTAMP(6))",
    "tz": "CAST(tz AS TIMESTAMP(6))",
    "due": "TIMESTAMPADD(DAY, due, DATE '1970-01-01')",
    "d": "TIMESTAMPADD(DAY, d, DATE '1970-01-01')",
}


def target_tables() -> list[str]:
    """The tables in PostgreSQL, for Flink makes none there."""
    types = {"STRING": "text", "DOUBLE": "double precision", "FLOAT": "real", "BYTES": "bytea"}
    statements = []
    for table, columns in KEPT.items():
        for theirs, ours in types.items():
            columns = columns.replace(theirs, ours)
        statements.append(f"create table {table} ({columns}, primary key ({KEYS[table]}))")
    return statements


def statements(published: Published, target: str) -> list[str]:
    """From each topic, up to its end of now, into the table of its name."""
    place = conninfo_to_dict(target)
    inserts = []
    made = []
    for table in READ:
        source = {
            "connector": "kafka",
            "topic": published.topic(table),
            "properties.bootstrap.servers": published.bootstrap,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            "format": "debezium-json",
            "debezium-json.schema-include": "true",
            "debezium-json.timestamp-format.standard": "ISO-8601",
        }
        sink = {
            "connector": "jdbc",
            "url": f"jdbc:postgresql://{place['host']}:{place['port']}/{place['dbname']}",
            "table-name": table,
            "username": str(place["user"]),
            "password": "unused",
        }
        key = f", PRIMARY KEY ({KEYS[table]}) NOT ENFORCED"
        made.append(f"CREATE TABLE read_{table} ({READ[table]}) WITH ({_options(source)})")
        made.append(f"CREATE TABLE kept_{table} ({KEPT[table]}{key}) WITH ({_options(sink)})")
        names = [column.split(" ")[0] for column in READ[table].split(", ")]
        chosen = ", ".join(_CONVERTED.get(name, name) for name in names)
        inserts.append(f"INSERT INTO kept_{table} SELECT {chosen} FROM read_{table};")
    return [*made, f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END"]


def _options(settings: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in settings.items())
