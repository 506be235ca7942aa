"""Groups that are kept by the change and were lost: tried again, less and less often."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from jobs.state.groups.sums import GroupSums
from jobs.state.groups.tables import fill_groups, is_filled
from jobs.state.server.connection import Connection
from jobs.state.views.view_generation import ViewGeneration

_FIRST_S: Final = 10.0
_LAST_S: Final = 3_600.0


@dataclass(slots=True)
class LostGroups:
    """``groups`` whose table was dropped ``since`` a time of the keeper's clock: a batch could not
    add a value, or ``verify --repair`` did not believe them."""

    groups: GroupSums
    since: float
    _wait_s: float = field(default=_FIRST_S, init=False)

    def are_back(self, conn: Connection, view: ViewGeneration, now: float) -> bool:
        """Whether their table is made anew by ``now``, and filled. It reads all rows of the view's
        tables while no batch runs, so that values which do not allow it are not asked for often."""
        if now - self.since < self._wait_s:
            return False
        self.since, self._wait_s = now, min(2 * self._wait_s, _LAST_S)
        again = not is_filled(conn, self.groups, view.relation)
        return fill_groups(conn, replace(view, groups=self.groups), again)
