"""The views that a whole-path seed keeps, over tables of the workload, in all stores. Pure.

Their SQL is PostgreSQL's, as people write it, so that it can be run on the source as it stands.
"""

from __future__ import annotations

import json
import random
from typing import Final, NamedTuple

STORES: Final = ("opensearch", "redis", "delta", "postgres")
"""By kind, each the name of one store of the configuration."""


class Kept(NamedTuple):
    """A view and the store that it is kept in. ``key`` names columns of ``sql``; ``history`` is
    empty where the store holds the current rows alone."""

    name: str
    store: str
    key: tuple[str, ...]
    sql: str
    history: str = ""

    def toml(self) -> str:
        """Its section of the configuration."""
        key = json.dumps(list(self.key))
        history = f'history = "{self.history}"\n' if self.history else ""
        return (
            f'[views.{self.name}]\nstore = "{self.store}"\nkey = {key}\n{history}'
            f"sql = '''{self.sql}'''\n"
        )


Declared = tuple[tuple[str, ...], str]
"""Key and SQL."""
ONE_TABLE: Final[dict[str, Declared]] = {
    # columns are added to it
    "every_item": (("id",), "select * from item"),
    # a key of two columns, large values out of line
    "wide_rows": (
        ("tenant", "ref"),
        "select tenant, ref, id, token, n, big, bigger from wide",
    ),
    # rows leave the filter and come back
    "most_parts": (
        ("id", "region"),
        "select id, region, token, n % 3 as step, extra from parts where n % 3 <> 2",
    ),
    # before images are whole
    "chosen": (
        ("id",),
        "select id, token, case when n > 2 then 'worn' else 'new' end as state, big, bigger"
        " from keyed_by_choice where coalesce(extra, 0) < 800",
    ),
}
SEVERAL_ROWS: Final[dict[str, Declared]] = {
    # each update of a child lets it look for the next parent
    "joined": (
        ("id",),
        "select c.id, c.token, c.n, p.token as parent_token, d.token as derived_token"
        " from child c left join parent p on p.id = c.n left join derived d on d.id = p.n",
    ),
    "both": (
        ("code",),
        'select c.code, c.token, s."Größe" as size, s.token as other'
        ' from coded c join "Süd"."Straße ""1"" %s" s on s."Größe" = c.id where s.n < 20',
    ),
    "tenants": (
        ("tenant",),
        "select tenant, count(*) as rows, sum(n) as n, round(avg(token), 2) as mean,"
        " max(token) as newest, count(distinct id) filter (where n > 0) as touched"
        " from wide group by tenant",
    ),
    "families": (
        ("id",),
        "select p.id, p.token, count(c.id) as children, min(c.token) as oldest,"
        " coalesce(json_agg(json_build_object('id', c.id, 'token', c.token) order by c.id)"
        " filter (where c.id is not null), '[]') as found"
        " from parent p left join child c on c.n = p.id group by p.id",
    ),
}
GROUPED: Final = ("tenants", "families")


def kept(source: str, seed: int) -> list[Kept]:
    """The views of a seed with mirrors in Delta: of one table in each store, and of several rows in
    three of them, a join and a group among these. Topics, indexes and keys of the views begin with
    the source's name."""
    rng = random.Random(f"views {seed}")
    several = [*rng.sample(["joined", "both"], 2), rng.choice(GROUPED)]
    if rng.random() < 0.5:
        several = [several[0], *GROUPED]
    places = [*rng.sample(STORES, len(STORES)), *rng.sample(STORES, len(several))]
    declared = {**ONE_TABLE, **SEVERAL_ROWS}
    return [
        Kept(f"{source}_{name}", store, *declared[name])
        for name, store in zip([*ONE_TABLE, *several], places, strict=True)
    ]
