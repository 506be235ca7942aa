"""How the rows of a view are made, for people to see: of mirrors, or of groups' counts and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.state.server.connection import Connection
    from jobs.state.views.view_record import ViewRecord
    from views.maintain.plan import ViewPlan

_KEYS = "touched_keys"
_OF_MIRRORS = "made of the mirrors as they are, of the keys that were touched"


def rows_made(
    conn: Connection, record: ViewRecord | None, plan: ViewPlan, relation: Callable[[str], str]
) -> dict[str, Any]:
    """``rows`` in words, ``rows_sql``, and ``groups``: how a group follows a change, "" for a view
    that has none. ``record`` is the generation that readers see, if there is one."""
    from jobs.state.groups.tables import group_sums, is_filled, why_not_kept

    found = {"rows": _OF_MIRRORS, "rows_sql": plan.rows(relation, _KEYS), "groups": ""}
    if plan.groups_reason:
        found["groups"] = _recomputed(plan.groups_reason)
    if plan.groups is None:
        return found
    if record is None:
        found["groups"] = _recomputed("it was not built yet")
        return found
    sums = group_sums(conn, record.id, plan.groups, relation)
    if sums is None or not is_filled(conn, sums, relation):
        found["groups"] = _recomputed(why_not_kept(conn, record.id, plan.groups, relation))
        return found
    return {
        "rows": "made of counts and sums of their groups",
        "rows_sql": plan.groups.rows(relation, sums.shown(_KEYS), _KEYS),
        "groups": f"kept by the change in {sums.table}: a batch adds what its rows bring and take "
        "away, whatever the size of a group",
    }


def _recomputed(reason: str) -> str:
    """Of groups of which no counts and sums are kept (docs/sql.md has the conditions)."""
    return f"each change computes its group from all rows of the group: {reason}"
