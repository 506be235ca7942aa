"""Alarms as files for Prometheus and Alertmanager. Pure.

The text is built here, so that no library for YAML has to be installed where Headwater runs; a test
reads it back with one, and with promtool and amtool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import ALARMS, BY_CODE

MINUTE_S: Final = 60.0
_WINDOW: Final = re.compile(r"\[(\d+)m\]")
_WRITTEN: Final = "# Written by `make alarms` from cdc/alarms/catalog.py: change that.\n"


def prometheus_rules(minute_s: float = MINUTE_S) -> str:
    """A rule file. A minute of windows and of ``for`` lasts ``minute_s`` seconds: less of them to
    try an alarm out, and to see it at once."""
    rules = "".join(_rule(alarm, minute_s) for alarm in ALARMS)
    return f"{_WRITTEN}groups:\n  - name: headwater\n    rules:\n{rules}"


def alertmanager_inhibitions() -> str:
    """``inhibit_rules`` of Alertmanager: the cause silences its consequences."""
    rules = "".join(
        f"  - source_matchers: [{_quoted(f'code = {cause}')}]\n"
        f"    target_matchers: [{_quoted(f'code = {alarm.code}')}]\n"
        f"    equal: [{', '.join(shared_labels(alarm, BY_CODE[cause]))}]\n"
        for alarm in ALARMS
        for cause in alarm.inhibited_by
    )
    return f"inhibit_rules:\n{rules}"


def shared_labels(alarm: Alarm, cause: Alarm) -> tuple[str, ...]:
    """What has to be the same of an alarm and its cause."""
    return tuple(one for one in labels_of(alarm) if one in labels_of(cause))


def labels_of(alarm: Alarm) -> tuple[str, ...]:
    """Those that each of its conditions fires with, but for ``code`` and ``severity``."""
    from_all = [condition.labels for condition in alarm.conditions]
    return tuple(one for one in from_all[0] if all(one in labels for labels in from_all))


def expression(alarm: Alarm, minute_s: float = MINUTE_S) -> str:
    """All its conditions as one expression of PromQL."""
    parts = [condition.promql() for condition in alarm.conditions]
    joined = parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
    return _WINDOW.sub(lambda found: f"[{_duration(int(found[1]), minute_s)}]", joined)


def _rule(alarm: Alarm, minute_s: float) -> str:
    return "".join(f"{' ' * indent}{line}\n" for indent, line in _lines(alarm, minute_s))


def _lines(alarm: Alarm, minute_s: float) -> Iterator[tuple[int, str]]:
    summary = re.sub(r"\{(\w+)\}", r"{{ $labels.\1 }}", alarm.summary)
    yield 6, f"- alert: Headwater{alarm.name}"
    yield 8, f"expr: {_quoted(expression(alarm, minute_s))}"
    if alarm.for_minutes:
        yield 8, f"for: {_duration(alarm.for_minutes, minute_s)}"
    yield 8, "labels:"
    yield 10, f"code: {alarm.code}"
    yield 10, f"severity: {alarm.severity}"
    yield 8, "annotations:"
    yield 10, f"summary: {_quoted(summary)}"
    yield 10, f"description: {_quoted(alarm.guide.means)}"
    yield 10, f"runbook: {_quoted(f'headwater explain {alarm.code}')}"


def _duration(minutes: float, minute_s: float) -> str:
    """``5m``, ``30s``: a whole number of one unit."""
    seconds = max(1, round(minutes * minute_s))
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
