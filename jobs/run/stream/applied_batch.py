"""What came of a batch that the state database has now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cdc.kafka.broker import Offsets
from jobs.state.batch.staging import Fault
from jobs.state.batch.stream_offsets import Progress


class Applied(NamedTuple):
    """A batch that the mirrors have now. ``offsets`` say where the whole stream is, ``views`` are
    the ids of those that have something to do since, ``faults`` were not applied, ``committed_us``
    are the commit times of its changes, in microseconds since 1970."""

    progress: Progress
    offsets: Offsets
    views: set[int]
    records: int
    faults: Sequence[Fault]
    committed_us: Sequence[int]

    def with_histories(self, views: set[int], faults: Sequence[Fault]) -> Applied:
        """With what was queued for histories, and what could not be, beside what no mirror took."""
        told = {one.record.record for one in self.faults}
        more = [one for one in faults if one.record.record not in told]
        return self._replace(views=self.views | views, faults=[*self.faults, *more])
