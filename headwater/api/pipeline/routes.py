"""The pipeline as JSON: each route answers with a value of ``headwater.pipeline``."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from cdc.alarms.catalog import BY_CODE
from cdc.alarms.page import document as alarm_document
from headwater.api.pipeline.figures import refuse_unknown
from headwater.api.problems import ProblemError
from headwater.api.shared import Shared, problems
from headwater.pipeline import pages, work
from headwater.pipeline.history import COARSE_S, FINE_S
from headwater.pipeline.picture import Pipeline

_RECORDS: Final = 200_000
_SPANS: Final = {"hour": FINE_S, "day": COARSE_S}


def pipeline_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""
    _parts(app, shared)
    _details(app, shared)
    _past(app, shared)


def _parts(app: FastAPI, shared: Shared) -> None:
    """The whole, and each part of it."""
    figures = shared.figures

    async def pipeline(request: Request) -> Any:
        """Source, capture, topics, views and stores, the worst first, and what to do."""
        shared.principal(request)
        return as_json(figures.picture)

    async def source(request: Request) -> Any:
        """The slot, what it holds back and for how long, and what `headwater check` finds."""
        shared.principal(request)
        return as_json(figures.source())

    async def topics(request: Request) -> Any:
        """Topics of captured tables: offsets of their partitions, retention, who reads them."""
        shared.principal(request)
        return as_json(await figures.topics())

    async def snapshots(request: Request) -> Any:
        """The newest snapshots, with how far each table is."""
        shared.principal(request)
        return as_json(await figures.snapshots())

    async def dead_letters(request: Request) -> Any:
        """What could not be published or applied, a line for each key. Keys and causes are shown
        to who may see rows of their tables."""
        return as_json(await figures.dead_letters(shared.principal(request)))

    async def alarms(request: Request) -> Any:
        """Alarms that fire."""
        shared.principal(request)
        return as_json(figures.alarms())

    _add(app, "/pipeline", pipeline, Pipeline)
    _add(app, "/source", source, pages.SourcePage)
    _add(app, "/topics", topics, pages.TopicsPage)
    _add(app, "/snapshots", snapshots, pages.SnapshotsPage)
    _add(app, "/dead-letters", dead_letters, pages.DeadLettersPage)
    _add(app, "/alarms", alarms, pages.AlarmsPage)


def _details(app: FastAPI, shared: Shared) -> None:
    """One view, alarm or row."""
    figures = shared.figures

    async def view(request: Request, view: str) -> Any:
        """A view: its SQL, generations, lag by hop and partition, and when it was last verified."""
        shared.principal(request)
        return as_json(await figures.view(view))

    async def alarm(request: Request, code: str) -> Any:
        """What an alarm means, likely causes, and how to recover: `headwater explain CODE`."""
        shared.principal(request)
        found = BY_CODE.get(code)
        if found is None:
            raise ProblemError(
                HTTPStatus.NOT_FOUND, "unknown-alarm", "there is no such alarm",
                f"known: {', '.join(BY_CODE)}",
            )  # fmt: skip
        return as_json(alarm_document(found))

    async def trace(
        request: Request,
        table: str,
        key: Annotated[
            list[str],
            Query(
                min_length=1,
                max_length=32,
                description="The key's value; COLUMN=VALUE of each column of a longer key.",
            ),
        ],
        since: Annotated[
            float | None, Query(ge=0, le=1e9, description="Only the last seconds.")
        ] = None,
        records: Annotated[
            int, Query(ge=1, le=_RECORDS, description="Records of Kafka to search, at most.")
        ] = _RECORDS,
    ) -> Any:
        """The way of one row: its last changes, and which views have them. For who may see rows of
        the table."""
        who = shared.principal(request)
        found = await shared.table(table, who)
        return as_json(await figures.trace(who, found.label, key, since, records))

    _add(app, "/views/{view}", view, pages.ViewPage, 404)
    _add(app, "/alarms/{code}", alarm, None, 404)
    _add(app, "/trace/{table}", trace, None, 404)


def _past(app: FastAPI, shared: Shared) -> None:
    """What the server remembers."""

    async def history(
        request: Request,
        view: Annotated[
            list[str] | None, Query(max_length=64, description="Views, besides capture.")
        ] = None,
        span: Annotated[
            Literal["hour", "day"], Query(description="In steps of 5 s, or of 5 min.")
        ] = "hour",
    ) -> Any:
        """Lag, records a second and states of the last hour or day, as this server has seen them.
        Of a step the worst state and the greatest lag. Steps in which it did not run are left
        out."""
        shared.principal(request)
        for name in view or ():
            refuse_unknown(shared.config, name)
        return as_json(shared.memory.history(_SPANS[span], list(dict.fromkeys(view or ()))))

    async def freshness(request: Request, view: str) -> Any:
        """How often a view was how late in the last 24 hours, as this server has seen it."""
        shared.principal(request)
        refuse_unknown(shared.config, view)
        return as_json(shared.memory.freshness(view))

    _add(app, "/history", history, work.History, 404)
    _add(app, "/views/{view}/freshness", freshness, work.Freshness, 404)


def _add(app: FastAPI, path: str, handler: Any, kind: Any, *more: int) -> None:
    shown: dict[str, Any] = {"model": kind} if kind else _OBJECT
    answers: dict[int | str, dict[str, Any]] = {**problems(*more), 200: shown}
    app.add_api_route(path, handler, tags=["pipeline"], responses=answers)


_OBJECT: Final[dict[str, Any]] = {
    "content": {"application/json": {"schema": {"type": "object"}}},
    "description": "OK",
}


def as_json(found: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value of ``headwater.pipeline`` as the response."""
    body = orjson.dumps(found)
    return Response(body, status, headers, "application/json")
