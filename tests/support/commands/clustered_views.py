"""The configuration of views that a standalone cluster keeps: a view of one table in some kinds of
stores, and a join, groups and a history over a shop."""

from __future__ import annotations

from collections.abc import Iterable

STORES = ("redis", "opensearch", "postgres", "delta")
_CONFIG = """
[stores.redis]
kind = "redis"
url = "{redis}"
[stores.opensearch]
kind = "opensearch"
url = "{opensearch}"
[stores.postgres]
kind = "postgres"
dsn = "{postgres}"
[stores.delta]
kind = "delta"
path = "{lake}"
[apply]
engine = "delta"
state = "./state"
[apply.spark]
"spark.hadoop.fs.s3a.endpoint" = "{s3}"
"spark.cores.max" = "2"
"spark.scheduler.minRegisteredResourcesRatio" = "1.0"    # else the first one may do all
"spark.scheduler.maxRegisteredResourcesWaitingTime" = "600s"
"spark.locality.wait" = "0s"
"spark.executor.memory" = "512m"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.authenticate.secret" = "of-the-cluster"
"spark.sql.shuffle.partitions" = "2"
"spark.sql.adaptive.enabled" = "false"
"spark.sql.execution.arrow.maxRecordsPerBatch" = "500"   # many writes of each executor
"spark.databricks.delta.snapshotPartitions" = "2"
"spark.eventLog.enabled" = "true"
"spark.eventLog.rolling.enabled" = "false"
"spark.eventLog.compress" = "false"
"spark.eventLog.dir" = "{events}"
"""
_VIEW = """
[views.{source}_{name}]
store = "{store}"
key = ["id"]
sql = '''{sql}'''
{more}
"""
_JOINED = "select o.id, o.total, c.name from orders o left join customers c on c.id = o.customer"
_GROUPED = """
    select customer as id, count(*) as n, sum(total) as total from orders
    where customer is not null group by customer
"""
SHOP_VIEWS = {
    "joined": ("opensearch", _JOINED, ""),
    "grouped": ("redis", _GROUPED, ""),
    "history": ("delta", "select id, name from customers", 'history = "scd2"'),
}


def clustered(source: str, stores: Iterable[str], **settings: str) -> str:
    """Of a source, with a view of one table in each of the stores; its settings name the places
    that it is formatted with."""
    single = {store: (store, f"select id, body from of_{store}", "") for store in stores}
    views = [
        _VIEW.format(source=source, name=name, store=store, sql=sql, more=more)
        for name, (store, sql, more) in {**single, **SHOP_VIEWS}.items()
    ]
    return _CONFIG.format(**settings) + "".join(views)
