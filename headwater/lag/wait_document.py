"""How a wait for views has ended, as JSON: what the command prints and the server answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdc.lsn import format_lsn
from headwater.view_client import Reached
from verification.late_view_errors import Standing


def document(views: Sequence[str], reached: Reached) -> dict[str, Any]:
    """As JSON."""
    found = [
        {
            "view": view,
            "reached": True,
            "waited_s": round(reached.each.get(view, reached.seconds), 3),
            "parked_keys": reached.parked.get(view, 0),
        }
        for view in dict.fromkeys(views)
    ]
    seconds = round(reached.seconds, 3)
    return {
        "reached": True,
        "lsn": format_lsn(reached.lsn),
        "waited_s": seconds,
        "views": found,
    }


def late(views: Sequence[str], reason: str, there: Sequence[Standing]) -> dict[str, Any]:
    """As JSON, when the time was over first. Without ``lacking_records`` it is capture that has not
    come so far."""
    standings = {one.view: one for one in there}
    found = [lacking(view, standings.get(view), bool(standings)) for view in dict.fromkeys(views)]
    return {"reached": False, "reason": reason, "views": found}


def lacking(view: str, one: Standing | None, published: bool) -> dict[str, Any]:
    if one is None:
        return {"view": view, "reached": published}
    return {
        "view": view,
        "reached": False,
        "lsn": None if one.below is None else format_lsn(one.below),
        "lacking_records": one.lacks,
        "parked_keys": one.parked,
    }
