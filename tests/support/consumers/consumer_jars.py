"""Jars of consumers that other projects made of Debezium's events; only tests need them.

``python -m tests.support.consumers.consumer_jars`` writes ``consumer_jars.lock``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jobs.spark.jars import jars
from stack.jars_lock import EXACT, WHOLE, write

LOCK: Final = Path(__file__).with_name("consumer_jars.lock")
JDBC_SINK: Final = "3.4.0.Final"
FLINK: Final = "2.2.1"
_LOG4J: Final = EXACT["debezium"]
# All that Flink's modules and connectors ask for, some in another version.
_FLINK_MODULES: Final = (
    *("annotations", "clients", "connector-base", "connector-datagen", "core", "core-api"),
    *("datastream", "datastream-api", "file-sink-common", "hadoop-fs", "json", "metrics-core"),
    *("queryable-state-client-java", "rpc-akka-loader", "rpc-core", "runtime", "streaming-java"),
    *("table-api-bridge-base", "table-api-java", "table-api-java-bridge", "table-common"),
    *("table-planner-loader", "table-runtime"),
)

_WHOLE: Final = {
    # A worker of Kafka Connect with Debezium's sink for databases, and ExtractNewRecordState,
    # which is in debezium-core.
    "connect": [
        f"io.debezium:debezium-connector-jdbc:{JDBC_SINK}",
        *WHOLE["debezium"][1:],
    ],
    "flink": [
        *(f"org.apache.flink:flink-{module}:{FLINK}" for module in _FLINK_MODULES),
        "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
        "org.apache.flink:flink-connector-jdbc-postgres:4.0.0-2.0",
    ],
}
_EXACT: Final = {
    "connect": _LOG4J,
    "flink": [*_LOG4J, "org.postgresql:postgresql:42.7.7"],
    # How Connect's AvroConverter translates, to be used with the jars of "connect".
    "avro": [
        "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",
        "org.apache.avro:avro:1.11.4",
    ],
}
# Drivers of other databases.
_WITHOUT: Final = (
    "com.microsoft.sqlserver:mssql-jdbc",
    "com.mysql:mysql-connector-j",
    "com.oracle.database.jdbc:ojdbc11",
    "org.mariadb.jdbc:mariadb-java-client",
)


def consumer_jars(set_name: str) -> list[Path]:
    """The files of the set ``connect``, ``flink`` or ``avro``, downloaded if need be."""
    return jars(set_name, lock=LOCK)


if __name__ == "__main__":
    write(LOCK, _WHOLE, _EXACT, _WITHOUT)
