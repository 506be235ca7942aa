"""Where the demo plays: its home folder, its servers' addresses, its ``headwater.toml``."""

from __future__ import annotations

from typing import NamedTuple

SOURCE = "airline"
TABLES = ("airlines", "airports", "planes", "weather", "flights")
VIEWS = {"flights": "flights", "flight_search": "flights", "aircraft": "planes"}
"""The table of each view."""
STORES = {"flights": "Delta", "flight_search": "OpenSearch", "aircraft": "Redis"}


class Addresses(NamedTuple):
    """Of the four servers."""

    dsn: str
    kafka: str
    opensearch: str
    redis: str


MARK = "# Written by `headwater demo`, which also removes it."
_CONFIG = '''\
{mark}

[source]
name = "{source}"
dsn = "{dsn}"
tables = [{tables}]

[kafka]
bootstrap_servers = "{kafka}"

[stores.lake]
kind = "delta"
path = "./lake"

[stores.search]
kind = "opensearch"
url = "{opensearch}"

[stores.cache]
kind = "redis"
url = "{redis}"

# Every flight, as it is.
[views.flights]
store = "lake"
key = ["id"]
sql = "select * from flights"

# Flights that left late, or are announced to. Rows come and go as estimates change.
[views.flight_search]
store = "search"
key = ["id"]
sql = """
select id, carrier || ' ' || flight::text as flight, origin, dest, flight_date, dep_delay,
       case when dep_delay >= 120 then 'very late' when dep_delay >= 15 then 'late'
            else 'slightly late' end as how_late
from flights
where dep_delay > 0
"""

# Where each aircraft is now.
[views.aircraft]
store = "cache"
key = ["tailnum"]
sql = "select tailnum, model, seats, status, airport, flight_id, seen_at from planes"

# The whole snapshot is one batch.
[apply]
state = "./views"
max_offsets_per_trigger = 500_000
'''


def config(addresses: Addresses) -> str:
    """The text of ``headwater.toml``."""
    tables = ", ".join(f'"public.{table}"' for table in TABLES)
    return _CONFIG.format(mark=MARK, source=SOURCE, tables=tables, **addresses._asdict())
