"""Alarms for people: ``docs/alarms.md`` in Markdown, and the plain text of ``headwater explain``.
Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.rules import expression

BEGIN: Final = "<!-- written by `make alarms` from cdc/alarms/catalog.py -->\n"
"""Above it people write, below it the page is written from the catalog."""


def overview() -> str:
    """A table of all alarms."""
    rows = "".join(
        f"| [{one.code}](#{_anchor(one)}) | {one.name} | {one.severity} | {_held(one)} | "
        f"{', '.join(one.inhibited_by) or 'none'} |\n"
        for one in ALARMS
    )
    return f"| code | alert | severity | held for | silenced by |\n|---|---|---|---|---|\n{rows}"


def page() -> str:
    """Everything below ``BEGIN``."""
    return f"{BEGIN}\n{overview()}\n" + "\n".join(section(alarm) for alarm in ALARMS)


def section(alarm: Alarm) -> str:
    """An alarm's section of the page."""
    silenced = f"\n\n{said}" if (said := _silenced(alarm)) else ""
    return (
        "\n\n".join(
            (
                f"## {alarm.code} {alarm.name}",
                alarm.guide.means,
                f"**Fires** ({alarm.severity}) when this has held for {_held(alarm)}:",
                f"```promql\n{expression(alarm)}\n```" + silenced,
                f"**Likely causes**\n\n{_list('-', alarm.guide.causes)}",
                f"**Look at**\n\n{_list('-', alarm.guide.look)}",
                f"**Recover**\n\n{_numbered(alarm.guide.recover)}",
            )
        )
        + "\n"
    )


def text(alarm: Alarm) -> str:
    """An alarm for a terminal."""
    guide, silenced = alarm.guide, _silenced(alarm)
    parts = [
        f"{alarm.code} {alarm.name}",
        guide.means,
        f"Fires ({alarm.severity}) when this has held for {_held(alarm)}:",
        f"  {expression(alarm)}",
        *([silenced] if silenced else ()),
        f"Likely causes\n\n{_list('-', guide.causes)}",
        f"Look at\n\n{_list('-', guide.look)}",
        f"Recover\n\n{_numbered(guide.recover)}",
    ]
    return "\n\n".join(parts)


def _silenced(alarm: Alarm) -> str:
    """What silences it, in a sentence; "" if nothing does."""
    causes = [f"{code} ({BY_CODE[code].name})" for code in alarm.inhibited_by]
    return f"It is silenced while its cause fires: {', '.join(causes)}." if causes else ""


def _held(alarm: Alarm) -> str:
    minutes = alarm.for_minutes
    if not minutes:
        return "one evaluation"
    return f"{minutes * 60:g} s" if minutes < 1 else f"{minutes:g} min"


def _anchor(alarm: Alarm) -> str:
    return f"{alarm.code} {alarm.name}".lower().replace(" ", "-")


def _numbered(lines: Iterable[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _list(mark: str, lines: Iterable[str]) -> str:
    return "\n".join(f"{mark} {line}" for line in lines)


def document(alarm: Alarm) -> dict[str, object]:
    """An alarm as JSON."""
    guide = alarm.guide
    return {
        "code": alarm.code,
        "name": alarm.name,
        "severity": alarm.severity,
        "expression": expression(alarm),
        "for_s": alarm.for_minutes * 60,
        "inhibited_by": list(alarm.inhibited_by),
        "summary": alarm.summary,
        "means": guide.means,
        "causes": list(guide.causes),
        "look_at": list(guide.look),
        "recover": list(guide.recover),
    }
