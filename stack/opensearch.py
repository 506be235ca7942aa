"""OpenSearch 2.19: one node, from the published jars.

The jars have no way to start a node, so ``OsNode.java`` does.
"""

from __future__ import annotations

import os
from pathlib import Path

from jobs.spark.jars import LOCK, jars
from stack.java_source import compiled
from stack.jvm import FAST_START, JVM_OPTIONS, java_command
from stack.ports import HOST
from stack.server import Launch, Place, Traits, ask, without

_SOURCE = Path(__file__).with_name("OsNode.java")
_HEAP = ("-Xms256m", "-Xmx512m")

PLUGINS = (
    "org.opensearch.transport.Netty4Plugin",
    "org.opensearch.percolator.PercolatorPlugin",
    "org.opensearch.analysis.common.CommonAnalysisPlugin",
    "org.opensearch.painless.PainlessPlugin",
    "org.opensearch.index.reindex.ReindexPlugin",
    "org.opensearch.index.mapper.MapperExtrasPlugin",
    "org.opensearch.join.ParentJoinPlugin",
)
SETTINGS = {
    "cluster.name": "headwater",
    "node.name": "headwater",
    "discovery.type": "single-node",
    "network.host": HOST,
    "http.type": "netty4",
    "transport.type": "netty4",
    "node.store.allow_mmap": "false",  # a small node needs no higher vm.max_map_count
    "cluster.routing.allocation.disk.threshold_enabled": "false",
}


class OpenSearch:
    """The search index."""

    traits = Traits(
        name="opensearch",
        ports=("main", "transport"),
        start_timeout_s=180,
        environ_prefixes=("OPENSEARCH_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    )

    def directory(self, home: Path) -> Path:
        return home / self.traits.name

    def prepare(self, place: Place) -> Launch:
        (place.directory / "config").mkdir(parents=True, exist_ok=True)
        given = dict(place.settings)
        options = given.pop(JVM_OPTIONS, FAST_START).split()
        node = compiled("opensearch-node", _SOURCE, jars("opensearch"), LOCK)
        java = java_command(place.directory, "opensearch", [*_HEAP, *options], [node])
        settings = {
            **SETTINGS,
            **given,
            "http.port": str(place.ports["main"]),
            "transport.port": str(place.ports["transport"]),
        }
        told = [f"{name}={value}" for name, value in settings.items()]
        environ = without(os.environ, self.traits.environ_prefixes)
        command = [*java, "OsNode", str(place.directory), *told, *PLUGINS]
        return Launch(command, place.directory, environ)

    def answers(self, place: Place) -> bool:
        """The cluster has a manager and every index that was there has its primaries again."""
        query = "wait_for_status=yellow&timeout=1s"
        request = f"GET /_cluster/health?{query} HTTP/1.0\r\nHost: {HOST}\r\n\r\n"
        return b" 200 " in ask(place.ports["main"], request.encode(), 15)

    def address(self, place: Place) -> str:
        return f"http://{HOST}:{place.ports['main']}"
