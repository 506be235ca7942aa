"""What an alarm is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cdc.alarms.conditions import Condition

Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Guide:
    """What a person on call reads, in Markdown: commands in backquotes."""

    means: str
    causes: tuple[str, ...]
    look: tuple[str, ...]
    recover: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alarm:
    """It fires while one of ``conditions`` has held for ``for_minutes``. While one of
    ``inhibited_by`` fires for the same source, and the same view if that one is of a view, nobody
    is told of it: that one is the cause. ``summary`` may have ``{source}`` and its other labels.
    """

    code: str
    name: str
    severity: Severity
    conditions: tuple[Condition, ...]
    for_minutes: float
    inhibited_by: tuple[str, ...]
    summary: str
    guide: Guide
