"""Where the demo plays: its home folder, its servers' addresses, its ``headwater.toml``."""

from __future__ import annotations

from typing import NamedTuple

from demo.data import LIVE_DATE

SOURCE = "airline"
TABLES = ("airlines", "airports", "planes", "weather", "flights")
VIEWS = {
    "flights": ("flights", "airlines", "planes"),
    "flight_search": ("flights", "airlines", "airports"),
    "aircraft": ("planes", "flights"),
}
"""The tables that each view joins."""
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

# Every flight, whose it is, and what flew. Of some aircraft nobody knows more than the number.
[views.flights]
store = "lake"
key = ["id"]
sql = """
select f.*, a.name as airline, p.manufacturer, p.model, p.seats
from flights f
join airlines a on a.carrier = f.carrier
left join planes p on p.tailnum = f.tailnum
"""

# Flights that left late, or are announced to, with all that one may search them by. Documents come
# and go as estimates change.
[views.flight_search]
store = "search"
key = ["id"]
sql = """
select f.id, f.carrier || ' ' || f.flight::text as flight, a.name as airline, f.flight_date,
       json_build_object('code', o.faa, 'name', o.name) as origin,
       json_build_object('code', f.dest, 'name', d.name, 'zone', d.tzone) as destination,
       f.dep_delay,
       case when f.dep_delay >= 120 then 'very late' when f.dep_delay >= 15 then 'late'
            else 'slightly late' end as how_late
from flights f
join airlines a on a.carrier = f.carrier
join airports o on o.faa = f.origin
left join airports d on d.faa = f.dest
where f.dep_delay > 0
"""

# Where each aircraft is now, and its flights of the day.
[views.aircraft]
store = "cache"
key = ["tailnum"]
sql = """
select p.tailnum, p.model, p.seats, p.status, p.airport, p.seen_at,
       count(f.id) as flights_today, max(f.dep_delay) as most_late,
       coalesce(json_agg(json_build_object(
           'flight', f.carrier || ' ' || f.flight::text, 'origin', f.origin, 'dest', f.dest,
           'left_at', f.dep_time, 'landed_at', f.arr_time
       ) order by f.time_hour, f.id) filter (where f.id is not null), '[]') as flights
from planes p
left join flights f on f.tailnum = p.tailnum and f.flight_date = '{live_date}'
group by p.tailnum
"""

# The whole snapshot is one batch.
[apply]
state = "./views"
max_offsets_per_trigger = 500_000
'''


def config(addresses: Addresses) -> str:
    """The text of ``headwater.toml``."""
    tables = ", ".join(f'"public.{table}"' for table in TABLES)
    return _CONFIG.format(
        mark=MARK, source=SOURCE, tables=tables, live_date=LIVE_DATE, **addresses._asdict()
    )
