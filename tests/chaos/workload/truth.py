"""What really happened at the source, as the clients that did it know it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NEVER: Final = 1 << 64
"""No LSN is that high."""


class Change(NamedTuple):
    """One change in the terms of its event.

    ``what`` is ``schema.table``, a message's prefix, or ``outbox.<topic>``. ``token`` is the new
    row's; of a delete the old row's where the event holds it, else None; of a message its content;
    of an emitted event (``op`` e) its id and a digest of its payload.
    """

    op: str
    what: str
    key: str | None = None
    token: int | str | None = None


@dataclass(slots=True)
class Transaction:
    """A transaction that took an id. LSNs bound its commit record: it lies between the two."""

    worker: int
    xid: int
    began_lsn: int
    changes: list[Change] = field(default_factory=list)
    ended_lsn: int | None = None


class Truth:
    """Transactions by how they ended. Written by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed: list[Transaction] = []
        """In the order of each worker."""
        self.rolled_back: set[int] = set()
        self.messages: dict[str, bool] = {}
        """Messages outside of transactions by content: whether they are known to be written."""
        self.joins_lsn = self.joined_lsn = NEVER
        """What commits below the first is from before a table joins; what begins at the second or
        above it, from after that."""
        self.undecided = 0
        """Commits whose answer was lost; each was decided by looking at the source."""

    def commit(self, transaction: Transaction) -> None:
        """It is durable."""
        with self._lock:
            self.committed.append(transaction)

    def roll_back(self, xid: int) -> None:
        """Nothing of it may ever be seen."""
        with self._lock:
            self.rolled_back.add(xid)

    def message(self, content: str, written: bool) -> None:
        """A message that belongs to no transaction is sent, or is known to be written."""
        with self._lock:
            self.messages[content] = written

    def lost_answer(self) -> None:
        """A client does not know whether its commit went through."""
        with self._lock:
            self.undecided += 1

    @property
    def changes(self) -> int:
        """How many committed changes there are."""
        return sum(len(transaction.changes) for transaction in self.committed)


def key_text(key: Mapping[str, object] | None) -> str | None:
    """A key in the one form in which keys are compared."""
    if not key:
        return None
    return json.dumps(key, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
