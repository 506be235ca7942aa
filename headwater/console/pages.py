"""The pages: each shows a value of ``headwater.pipeline``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.rules import expression
from headwater.api.problems import ProblemError
from headwater.console.context import Asked
from headwater.console.past import sparks
from headwater.console.picture import arrow, groups, headline
from headwater.pipeline.pages import Check
from headwater.pipeline.picture import Part

_FASTEST_S: Final = 2
_SLOWEST_S: Final = 3_600
_LEVELS: Final = ("error", "warning", "ok")
"""Of findings, what wants somebody first."""
_SEARCHED: Final = 200_000
"""Records of Kafka, for the way of a row."""


async def overview(asked: Asked) -> Any:
    pipeline = asked.shared.figures.picture
    return asked.page(
        "overview",
        pipeline=pipeline,
        headline=headline(pipeline),
        groups=groups(pipeline),
        hops={"source": arrow(pipeline, Part.SOURCE), "capture": arrow(pipeline, Part.CAPTURE)},
        failing=_failing(asked),
    )


async def status(asked: Asked) -> Any:
    """One page without script, for curl and telephones."""
    pipeline = asked.shared.figures.picture
    try:
        seconds = max(0, int(asked.query("refresh")))
    except ValueError:
        seconds = 0
    return asked.page(
        "status",
        pipeline=pipeline,
        headline=headline(pipeline),
        hops=(arrow(pipeline, Part.SOURCE), arrow(pipeline, Part.CAPTURE)),
        failing=_failing(asked),
        sparks=sparks(asked),
        refresh=min(max(seconds, _FASTEST_S), _SLOWEST_S) if seconds else 0,
    )


def _failing(asked: Asked) -> Sequence[Check]:
    """What ``headwater check`` finds wrong, as a store that does not answer; asked for only where
    somebody has to act."""
    figures = asked.shared.figures
    if not figures.picture.advice:
        return ()
    page = figures.source()
    return [one for one in page.checks if one.level == "error"]


async def source(asked: Asked) -> Any:
    found = asked.shared.figures.source()
    checks = sorted(found.checks, key=lambda one: _LEVELS.index(one.level))
    return asked.page("source", page=replace(found, checks=tuple(checks)))


async def topics(asked: Asked) -> Any:
    return asked.page("topics", page=await asked.shared.figures.topics())


async def views(asked: Asked) -> Any:
    pipeline = asked.shared.figures.picture
    return asked.page(
        "views",
        views=pipeline.views,
        measured_at_s=pipeline.measured_at_s,
        sparks=sparks(asked),
    )


async def view(asked: Asked) -> Any:
    name = asked.request.path_params["view"]
    return asked.page("view", page=await asked.shared.figures.view(name))


async def snapshots(asked: Asked) -> Any:
    return asked.page("snapshots", page=await asked.shared.figures.snapshots())


async def dead_letters(asked: Asked) -> Any:
    view = asked.query("view")
    found = await asked.shared.figures.dead_letters(asked.who, view)
    return asked.page("dead_letters", page=found, view=view)


async def alarms(asked: Asked) -> Any:
    figures = asked.shared.figures
    problem = figures.picture.problem
    return asked.page("alarms", page=figures.alarms(), catalog=ALARMS, problem=problem)


async def alarm(asked: Asked) -> Any:
    code = asked.request.path_params["code"]
    if (found := BY_CODE.get(code)) is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, "unknown-alarm", "there is no such alarm",
            f"known: {', '.join(BY_CODE)}",
        )  # fmt: skip
    figures = asked.shared.figures
    judged = figures.alarms()
    return asked.page(
        "alarm",
        alarm=found,
        firing=[one for one in judged.firing if one.code == code],
        judged_at_s=judged.judged_at_s,
        problem=figures.picture.problem,
        expression=expression(found),
    )


async def trace(asked: Asked) -> Any:
    """The way of one row: its last changes, and which views have them. It reads much of Kafka, and
    is traced once."""
    asked.refreshed_by("")
    table, key = asked.query("table"), asked.query("key").strip()
    if not key:
        detail = "the key of a row is wanted"
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "wrong-request", detail,
            "write its value, or COLUMN=VALUE of each column of a longer key",
        )  # fmt: skip
    found = await asked.shared.table(table, asked.who)
    wanted = key_parts(key, found.relation.key)
    way = await asked.shared.figures.trace(asked.who, found.label, wanted, None, _SEARCHED)
    return asked.page("trace", way=way, key=key)


def key_parts(text: str, columns: Sequence[str]) -> list[str]:
    """``COLUMN=VALUE`` of each column of a key, where these are named, else one value, whatever is
    in it. Pure."""
    names = "|".join(map(re.escape, columns))
    begins: dict[str, int] = {}
    for one in re.finditer(rf"(?:^|(?<=\s))({names})=", text) if names else ():
        begins.setdefault(one[1], one.start())
    places = sorted(begins.values())
    if not places or places[0] > 0:
        return [text]
    ends = [*places[1:], len(text)]
    return [text[begin:end].strip() for begin, end in zip(places, ends, strict=True)]


async def changes(asked: Asked) -> Any:
    """The form, and the feed of a table that was chosen. Rows come by ``GET /changes``, which
    judges by itself who may see them."""
    known = await asyncio.to_thread(asked.shared.tables.all)
    tables = [label for label in sorted(known) if asked.who.may_see(label)]
    table, key = asked.query("table"), asked.query("key")
    problem = stream = ""
    if table and table not in tables:
        problem = f"{table} is not captured, or you may not see its rows."
    elif table:
        query = {"snapshot": "false"} | ({"key": key} if key else {})
        stream = f"/changes/{quote(table)}?{urlencode(query)}"
    return asked.page(
        "changes", table=table if stream else "", tables=tables, key=key, stream=stream,
        problem=problem,
    )  # fmt: skip
