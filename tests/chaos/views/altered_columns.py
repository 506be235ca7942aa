"""A view that names columns which DDL renames, drops and retypes in the midst of it.

It goes on, or it stops alone and says why; built anew by the names of now it is equal
(``docs/sql.md``, "When a table changes").
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.chaos.servers.environment import connect
from tests.chaos.views.declarations import STORES, Kept
from tests.chaos.workload.tables import BY_LABEL, noted_column

TOUCHED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "codes": (("code",), "select code, token, extra, {public.coded} as noted from coded"),
    "wide": (
        ("tenant", "ref"),
        "select tenant, ref, token, extra, {public.wide} as noted from wide",
    ),
    "streets": (
        ("size",),
        'select "Größe" as size, token, extra, {Süd.Straße "1" %s} as noted'
        ' from "Süd"."Straße ""1"" %s"',
    ),
    "pairs": (
        ("code",),
        "select c.code, c.token, c.extra, c.{public.coded} as noted, w.tenant, w.extra as other"
        " from coded c left join wide w on w.tenant = 't0' and w.ref = md5(c.id::text)::uuid",
    ),
}
_FIRST: Final = "noted"
_PLACE: Final = re.compile(r"\{(.+?)\}")
_CLEAR: Final = re.compile(r"noted|extra|view rebuild")
"""The column that is another one, or what to do."""
_STOPS: Final = (b'"event": "view_stopped"', b'"event": "view_not_built"')


class Touched(NamedTuple):
    """The view as it is declared, and its SQL with a place for the name of each column that gets
    another one."""

    view: Kept
    template: str

    def renamed(self, dsn: str) -> Kept:
        """The view by what its columns are called now."""
        with connect(dsn) as conn:
            return self.view._replace(
                sql=_PLACE.sub(lambda m: noted_column(conn, BY_LABEL[m[1]]) or "", self.template)
            )

    def is_told(self, line: bytes) -> bool:
        """Whether a line of the log says that it cannot be kept now."""
        told = any(word in line for word in _STOPS)
        return told and json.loads(line)["view"] == self.view.name


def is_clear(said: str) -> bool:
    """Whether an error of such a view says what is wrong; any other passes, or is a fault."""
    return _CLEAR.search(said) is not None


def touched(source: str, seed: int) -> Touched:
    """That of a seed."""
    rng = random.Random(f"touched {seed}")
    return touched_view(source, rng.choice(list(TOUCHED)), rng.choice(STORES))


def touched_view(source: str, name: str, store: str = STORES[0]) -> Touched:
    """One of ``TOUCHED``, in a store."""
    key, template = TOUCHED[name]
    sql = _PLACE.sub(_FIRST, template)
    return Touched(Kept(f"{source}_touched_{name}", store, key, sql), template)
