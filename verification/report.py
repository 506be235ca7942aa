"""What a verification of a view reports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from verification.values.canonical_form import Canonical


class Difference(NamedTuple):
    """A row that is not what it should be. ``columns`` holds source's and view's values."""

    kind: Literal["missing", "extra", "different", "parked"]
    key: dict[str, Canonical]
    columns: dict[str, tuple[Canonical, Canonical]]


@dataclass(slots=True)
class Report:
    """What was compared, and what was found; ``differences`` are the first of ``different``."""

    view: str
    lsn: int = 0
    source_rows: int = 0
    """At ``lsn``."""
    view_rows: int = 0
    """Of the view at ``lsn``: what was read of it later, less what it has got and more what it has
    lost since. Rows that are undecided are taken to be as in the source."""
    rows_read: int = 0
    """Of the store, while the view went on."""
    missing: int = 0
    extra: int = 0
    different: int = 0
    repaired: int = 0
    """Of these, those that are equal now."""
    beyond_repair: int = 0
    """Of these, those that differ still though they were made anew from the view's mirrors."""
    awaiting: int = 0
    """Of these, those that are written as soon as somebody applies the view."""
    undecided: int = 0
    """Rows that were changed during every round."""
    parked: int = 0
    """Rows that are not as in the source and whose events wait as dead letters."""
    waiting: int = 0
    """Keys of its tables that wait: other rows that differ may be made of those, as they were."""
    rounds: int = 0
    seconds: float = 0.0
    sampled: int = 0
    """Keys that were compared, where not all were."""
    differing: list[dict[str, Canonical]] = field(default_factory=list)
    """The keys of rows that differ at the end, the first of them."""
    skipped: list[dict[str, Canonical]] = field(default_factory=list)
    """Of ``sampled``, the keys of rows that are undecided or parked."""
    differences: list[Difference] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """Rows that were not what they should be."""
        return self.missing + self.extra + self.different

    @property
    def equal(self) -> bool:
        """Every row was decided, and none differs any more."""
        return self.wrong == self.repaired and not self.undecided and not self.parked


def resumed(first: Report, again: Report) -> Report:
    """What a verification found, with what a second one, after a repair, says became of it."""
    if again.wrong or again.undecided or again.parked:
        return again
    return replace(
        first,
        repaired=first.wrong,
        beyond_repair=0,
        undecided=0,
        rounds=first.rounds + again.rounds,
        seconds=first.seconds + again.seconds,
        differing=[],
    )
