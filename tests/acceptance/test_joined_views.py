"""A view of several tables on the whole path, as a user calls it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import redis

from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender

TABLES = (
    "create table customers (id int primary key, name text not null, country text, doc jsonb)",
    """create table orders (id bigint primary key, customer_id int, total numeric(12,2), note text,
                            extra json)""",
    """insert into customers select i, 'customer ' || i, 'c' || i % 5,
       jsonb_build_object('tier', i % 3, 'tags', array['a.b', i::text])
       from generate_series(1, 100) i""",
    """insert into orders select i, 1 + i % 120, i * 1.1, repeat('note ' || i, i % 400),
       format('{"items" : [{"price": %s.50, "n": %s}],  "n": 1e0}', i, i % 7)::json
       from generate_series(1, 1000) i""",
)
JOINED = """select o.id, o.total, o.note, c.name, coalesce(c.country, 'nowhere') as country,
c.doc ->> 'tier' as tier, o.extra -> 'items' as items, o.extra #>> '{items,0,price}' as price
from orders o left join customers c on c.id = o.customer_id where o.total > 2"""
GROUPED = """select c.id, c.name, count(o.id) as orders, sum(o.total) as total,
round(avg(o.total), 2) as mean,
sum((o.extra -> 'items' -> 0 ->> 'n')::int) as items, c.doc #>> '{tags,-1}' as tag
from customers c left join orders o on o.customer_id = c.id group by c.id"""
CHANGES = (
    "update customers set name = 'new ' || id where id % 10 = 0",
    "update orders set customer_id = 5 where id % 50 = 0",
    "update customers set doc = doc || '{\"tier\": 1.50}' where id % 4 = 0",
    """begin; insert into customers values (110, 'late', null, '{"tier": 9.0}');
       delete from orders where id > 990;
       insert into orders values (2000, 110, 7, 'x', '{}'); commit""",
    "delete from customers where id = 7",
)


@pytest.fixture
def deployment(
    tmp_path: Path, source_name: str, database: str, kafka: str, redis_server: str, lender: Lender
) -> Deployment:
    extra = f'''
[stores.cache]
kind = "redis"
url = "{redis_server}"
[apply]
state = "{tmp_path}/state"
master = "local[2]"
spark = {{ "spark.driver.memory" = "1g" }}
[views.{source_name}_joined]
store = "cache"
key = ["id"]
sql = """{JOINED}"""
[views.{source_name}_grouped]
store = "cache"
key = ["id"]
sql = """{GROUPED}"""
'''
    deployment = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    deployment.execute(*TABLES)
    return deployment


@pytest.mark.timeout(1800)
def test_joined_and_grouped_views_are_equal_to_their_sql(deployment: Deployment) -> None:
    joined, grouped = f"{deployment.name}_joined", f"{deployment.name}_grouped"
    done(deployment, "init")
    with deployment.running("capture"):
        assert "generation 1 is live: " in done(deployment, "view", "create", grouped)
        with deployment.running("apply"):
            deployment.execute(*CHANGES)
            waited = done(deployment, "wait", joined, grouped, "--timeout", "300")
            assert waited.count(": holds what was committed below ") == 2
            for view in (joined, grouped):
                assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "300")
            done(deployment, "view", "rebuild", joined)
            deployment.execute("truncate orders", "insert into orders values (1, 1, 5, 'again')")
            for view in (joined, grouped):
                assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "300")
            mended_and_replayed(deployment, joined, grouped)
            assert "incremental" in done(deployment, "view", "show", joined)
        refused = deployment.run("verify", joined, "--repair")
        assert (refused.returncode, "headwater apply" in refused.stderr) == (1, True)


def mended_and_replayed(deployment: Deployment, joined: str, grouped: str) -> None:
    """Beside an apply. Generation 2 of the join is live."""
    with redis.Redis.from_url(cache_url(deployment)) as client:
        client.hset(f"{joined}@2:1", "doc", '{"id": 1, "total": "0.00"}')
        client.delete(f"{grouped}@1:1", f"{grouped}@1:2")
        for view, what in ((joined, "different 1"), (grouped, "missing 2")):
            run = deployment.run("verify", view)
            assert (run.returncode, what in " ".join(run.stdout.split())) == (1, True), run.stdout
            said = " ".join(done(deployment, "verify", view, "--repair").split())
            assert "repaired at LSN" in said
        deployment.execute("insert into orders select i, i, 9 from generate_series(2, 40) i")
        done(deployment, "wait", joined, "--timeout", "300")
        assert client.delete(*(f"{joined}@2:{i}" for i in range(1, 31))) == 30
        said = done(deployment, "replay", joined, "--from", "beginning")
        assert f"{joined}: generation 2: 40 rows computed and written again" in said
        deployment.execute("update customers set name = 'later' where id < 10")
        assert "equal at LSN" in done(deployment, "verify", joined, "--timeout", "300")


def cache_url(deployment: Deployment) -> str:
    with deployment.config.open("rb") as file:
        return str(tomllib.load(file)["stores"]["cache"]["url"])
