"""The views that a whole-path seed keeps with the state database: one of each kind. Pure.

Columns that no DDL renames or retypes are read: ``id``, ``token``, ``n``, keys and large values.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from tests.chaos.views.declarations import ONE_TABLE, SEVERAL_ROWS, STORES, Declared, Kept

KINDS: Final[Mapping[str, Mapping[str, Declared]]] = {
    "of one table": ONE_TABLE,
    "joined": {
        **{name: SEVERAL_ROWS[name] for name in ("joined", "both", "families")},
        "households": (
            ("id",),
            "select p.id, p.token, d.twice, (select coalesce(json_agg(json_build_object("
            "'id', c.id, 'token', c.token, 'coded', (select coalesce(json_agg(k.code order by"
            " k.code), '[]') from coded k where k.id = c.n)) order by c.id), '[]')"
            " from child c where c.n = p.id) as children"
            " from parent p left join derived d on d.id = p.n",
        ),
    },
    "full join": {
        "either": (
            ("id",),
            "select coalesce(p.id, d.id) as id, p.token, d.token as other, d.twice"
            " from parent p full join derived d on d.id = p.id",
        ),
        "either_chosen": (
            ("id",),
            "select coalesce(k.id, i.id) as id, k.token, i.token as item_token, k.big"
            " from keyed_by_choice k full join item i on i.id = k.id",
        ),
    },
    "groups": {
        "tenants": SEVERAL_ROWS["tenants"],
        "regions": (
            ("region",),
            "select region, count(*) as rows, min(token) as oldest, max(token) as newest,"
            " bool_or(n > 3) as worn, string_agg(id::text, ',' order by id) as ids"
            " from parts group by region having count(*) > 1",
        ),
    },
    "distinct on": {
        "newest_of_region": (
            ("region",),
            "select distinct on (region) region, id, token, n from parts"
            " order by region, token desc, id",
        ),
        "newest_of_tenant": (
            ("tenant",),
            "select distinct on (tenant) tenant, ref, token, bigger from wide"
            " order by tenant, token desc, ref",
        ),
    },
    "exists": {
        "with_children": (
            ("id",),
            "select p.id, p.token from parent p where exists"
            " (select from child c where c.n = p.id and c.token > p.token)",
        ),
        "without_children": (
            ("id",),
            "select p.id, p.token, p.n from parent p where not exists"
            " (select from child c where c.n = p.id)",
        ),
    },
    "window": {
        "top_of_region": (
            ("id", "region"),
            "select id, region, token, nth from (select id, region, token, row_number() over"
            " (partition by region order by token desc, id) as nth from parts) q where nth <= 3",
        ),
        "running": (
            ("id",),
            "select id, n, token, sum(token) over (partition by n order by id) as so_far"
            " from derived",
        ),
    },
    "union": {
        "people": (
            ("kind", "id"),
            "select 'parent' as kind, id, token from parent"
            " union all select 'child', id, token from child where n > 0",
        ),
        "three": (
            ("kind", "id"),
            "select 'a' as kind, id, token from item union all select 'b', id, token from derived"
            " union all select 'c', id, token from keyed_by_choice",
        ),
    },
    "whole table": {
        "all_parents": (
            ("one",),
            "select 1 as one, count(*) as rows, sum(n) as n, max(token) as newest from parent",
        ),
        "all_items": (
            ("one",),
            "select 1 as one, count(*) as rows, round(avg(n), 3) as mean, min(token) as oldest"
            " from item",
        ),
    },
    "cast": {
        "by_code": (
            ("code",),
            "select k.code, k.token, p.token as parent_token from coded k"
            " left join parent p on p.id::text = substring(k.code from 6)",
        ),
        "by_reference": (
            ("tenant", "ref"),
            "select w.tenant, w.ref, w.token, i.token as item_token from wide w"
            " left join item i on md5(i.id::text)::uuid = w.ref",
        ),
    },
}
HISTORIES: Final[Mapping[str, Mapping[str, Declared]]] = {
    "log": {
        "log_of_parts": (("id", "region"), "select id, region, token, n from parts"),
        "log_of_parents": (("id",), "select id, token, n from parent where n < 6"),
    },
    "scd2": {
        "versions_of_codes": (("code",), "select code, id, token, n from coded"),
        "versions_of_children": (("id",), "select id, token, parent from child"),
    },
}


def kept_by_database(source: str, seed: int) -> list[Kept]:
    """The views of a seed: one of each kind, in all stores, and a history of each form."""
    rng = random.Random(f"views {seed}")
    drawn = [rng.choice(list(kind)) for kind in KINDS.values()]
    places = rng.sample(STORES * 3, len(drawn))
    places[: len(STORES)] = rng.sample(STORES, len(STORES))
    views = [
        _kept(source, name, store, kind[name])
        for name, kind, store in zip(drawn, KINDS.values(), places, strict=True)
    ]
    for history, of_it in HISTORIES.items():
        name = rng.choice(list(of_it))
        views.append(_kept(source, name, "delta", of_it[name])._replace(history=history))
    return views


def joins_later(source: str, seed: int) -> Kept:
    """One more view, which is declared while the others are kept."""
    rng = random.Random(f"later {seed}")
    of_kind = KINDS[rng.choice(["joined", "groups", "exists", "union", "window"])]
    name = rng.choice(list(of_kind))
    return _kept(source, f"later_{name}", rng.choice(STORES), of_kind[name])


def of_joined(source: str, seed: int) -> Kept:
    """A view of the table that joins in midstream."""
    store = random.Random(f"joined {seed}").choice(STORES)
    return _kept(source, "joined_late", store, (("id",), "select id, token, n from later.joining"))


def _kept(source: str, name: str, store: str, declared: Declared) -> Kept:
    return Kept(f"{source}_{name}", store, *declared)
