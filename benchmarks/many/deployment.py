"""The shop and its stores: databases of their own, filled, and ``headwater init`` run."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from benchmarks.environment import Setting, checkpoint, init_source
from benchmarks.many.shop import NAMES, TABLES, Sizes, row_sql
from benchmarks.many.views import VIEWS, store_lines, view_lines
from benchmarks.views.process import lake, open_stores
from cdc.source.errors import translated
from stack.servers import Endpoints

SOURCE: Final = "many"
_SHOP, _REPORTS = "shop", "reports"


class Place(NamedTuple):
    """``setting`` has the shop's DSN. PostgreSQL as a store is another database of its server."""

    setting: Setting
    server_dsn: str
    reports_dsn: str
    stores: Endpoints

    @property
    def state(self) -> Path:
        """The folder of ``apply.state``."""
        return self.setting.home / "views"

    @property
    def lake(self) -> Path:
        return lake(self.setting)


def make(setting: Setting, sizes: Sizes, engine: str) -> Place:
    """A shop that is full, its views declared and none of them built."""
    stores = open_stores(setting)
    with setting.connect() as conn, translated("creating the shop"):
        for name in (_SHOP, _REPORTS):
            conn.execute(f"create database {name}".encode())
    shop, reports = (
        urlsplit(setting.dsn)._replace(path=f"/{name}").geturl() for name in (_SHOP, _REPORTS)
    )
    place = Place(setting._replace(dsn=shop), setting.dsn, reports, stores)
    _fill(place.setting, sizes)
    init_source(place.setting, SOURCE, "*", "--no-snapshot")
    found = (stores.redis_url, stores.opensearch_url, reports, str(place.lake))
    state = f'[snapshot]\nrate = "none"\n[apply]\nstate = "{place.state}"\nengine = "{engine}"'
    lines = ["", state, *store_lines(*found), *view_lines(VIEWS), ""]
    with place.setting.config(SOURCE).open("a", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return place


def remove(place: Place) -> None:
    """Both databases leave the disk. Nobody may read the slot any more."""
    with place.setting._replace(dsn=place.server_dsn).connect() as conn:
        for name in (_SHOP, _REPORTS):
            with translated(f"dropping {name}"):
                conn.execute(f"drop database {name} with (force)".encode())


def _fill(setting: Setting, sizes: Sizes) -> None:
    with setting.connect() as conn, translated("filling the shop"):
        conn.execute("set search_path = public")
        conn.execute(TABLES.encode())
        for number, (table, sql) in enumerate(row_sql(sizes)):
            setting.watch(f"filling {table}", number / len(NAMES))
            conn.execute(sql.encode())
        conn.execute("vacuum analyze")
        checkpoint(conn)
