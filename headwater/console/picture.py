"""The overview: the pipeline as one picture, and one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cdc.lag.states import GOOD, State
from cdc.plural import plural
from headwater.console.words import advice_tone, tone
from headwater.pipeline.picture import Arrow, Part, Pipeline, ViewLine

MOST_LANES: Final = 12
"""So many views are drawn, the worst; a page of its own lists all."""
_MOST_NAMED: Final = 3
_WORST_TONES: Final = ("bad", "unknown", "warn")


class Lane(NamedTuple):
    """A view in the picture, with what comes to it and what goes from it."""

    line: ViewLine
    into: Arrow | None
    out: Arrow | None


class Group(NamedTuple):
    """The views of a store. ``more`` are not drawn."""

    store: str
    kind: str
    state: State
    lanes: tuple[Lane, ...]
    more: int
    views: int


class Headline(NamedTuple):
    tone: str
    text: str


def groups(pipeline: Pipeline) -> tuple[Group, ...]:
    """By store, the one with the worst view first."""
    drawn = {one.view for one in pipeline.views[:MOST_LANES]}
    by_store: dict[str, list[ViewLine]] = {}
    for line in pipeline.views:
        by_store.setdefault(line.store, []).append(line)
    return tuple(_group(lines, drawn, pipeline) for lines in by_store.values())


def _group(lines: Sequence[ViewLine], drawn: set[str], pipeline: Pipeline) -> Group:
    lanes = tuple(
        Lane(
            one,
            arrow(pipeline, Part.TOPICS, one.view),
            arrow(pipeline, Part.VIEW, one.view),
        )
        for one in lines
        if one.view in drawn
    )
    first = lines[0]
    return Group(first.store, first.kind, first.state, lanes, len(lines) - len(lanes), len(lines))


def arrow(pipeline: Pipeline, begin: Part, view: str = "") -> Arrow | None:
    """The one that begins there."""
    found = (one for one in pipeline.arrows if one.begin == begin and one.view == view)
    return next(found, None)


def headline(pipeline: Pipeline) -> Headline:
    """What somebody on call has to know first."""
    if pipeline.problem:
        return Headline("unknown", "Nothing can be said of now.")
    bad = [one for one in pipeline.views if one.state not in GOOD]
    late = [one for one in pipeline.row_alerts if one.state not in GOOD]
    if not bad and not pipeline.advice and pipeline.state in GOOD:
        if not pipeline.views:
            return Headline("good", "Capture keeps up. No view is declared.")
        return Headline("good", f"Everything keeps up: {plural(len(pipeline.views), 'view')}.")
    if not pipeline.views:
        text = "No view is declared."
    elif bad:
        words = [f"{count} {state}" for state, count in _counted(pipeline.views)]
        text = f"{plural(len(pipeline.views), 'view')}: {', '.join(words)}."
    else:
        text = plural(len(pipeline.views), "view keeps up.", "views keep up.")
    if late:
        named = ", ".join(f"{one.alert} {one.state}" for one in late[:_MOST_NAMED])
        text = f"{text} {plural(len(late), 'alert')} on rows: {named}."
    capture = arrow(pipeline, Part.CAPTURE)
    if capture is not None and capture.state not in GOOD:
        text = f"Capture: {capture.state}. {text}"
    if pipeline.advice:
        text = f"{plural(len(pipeline.advice), 'thing')} to do. {text}"
    tones = {tone(pipeline.state), *(advice_tone(one) for one in pipeline.advice)}
    return Headline(next((one for one in _WORST_TONES if one in tones), "good"), text)


def _counted(views: Sequence[ViewLine]) -> list[tuple[str, int]]:
    """The worst first, as the views are."""
    counts: dict[str, int] = {}
    for one in views:
        counts[one.state.value] = counts.get(one.state.value, 0) + 1
    return list(counts.items())
