"""The client of an OpenSearch cluster, which all views of a process share."""

from __future__ import annotations

from cdc.config import OpenSearch
from jobs.sinks.opensearch.generations import OpenSearchGenerations
from jobs.sinks.opensearch.sink import OpenSearchSink


def test_who_closes_a_view_leaves_the_others_their_connections() -> None:
    config = OpenSearch(kind="opensearch", url="http://127.0.0.1:1")
    one, other = (OpenSearchSink(config, view, 1.0) for view in ("one", "other"))
    connection = one._server.client.transport.connection_pool.connection
    pool = connection.pool
    assert pool is not None
    other.close()
    OpenSearchGenerations(config, "third", 1.0).close()
    assert connection.pool is pool
