"""Probes, metrics, lag, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.responses import JSONResponse

from cdc.metrics import serve_catalog as catalog
from cdc.metrics.exposition import Sample, exposed
from headwater.api.problems import ProblemError, unavailable
from headwater.api.shared import Shared, problems
from headwater.lag.document import document

_OBJECT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "OK"}
}

_ASK: Final = "what is missing is told after a login, or to a token: GET /readyz with it"


def state_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""
    shared.watching.samples = lambda: _samples(shared)

    async def livez() -> Any:
        """200 while the event loop turns; else restart the server."""
        live, reason = shared.watching.probes.live()
        return _json(200 if live else 503, {"live": live, "reason": reason})

    async def readyz(request: Request) -> Any:
        """200 while the source and Kafka answer. What is missing is told to who may know."""
        ready, missing = shared.watching.probes.ready()
        found: dict[str, Any] = {"ready": ready}
        try:
            shared.principal(request)
            found["missing"] = list(missing)
        except ProblemError:
            if not ready:
                found["reason"] = _ASK
        return _json(200 if ready else 503, found)

    async def metrics(request: Request) -> Any:
        """For Prometheus."""
        shared.principal(request)
        kind, body = exposed(shared.watching.registry, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": kind})

    async def lag(request: Request) -> Any:
        """What `headwater lag --json` prints."""
        shared.principal(request)
        seen = shared.watching.seen
        if seen is None:
            raise unavailable("not-measured", "lag was not measured yet, or a server is away")
        return _json(200, document(seen))

    async def openapi(request: Request) -> Any:
        """This document."""
        shared.principal(request)
        return _json(200, app.openapi())

    probe = {**_OBJECT, 503: {**_OBJECT[200], "description": "Not so"}, **problems_of_all()}
    app.add_api_route("/livez", livez, responses=probe, tags=["state"])
    app.add_api_route("/readyz", readyz, responses=probe, tags=["state"])
    text: dict[int | str, dict[str, Any]] = {
        200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}
    }
    answers = {**problems(), **_OBJECT}
    app.add_api_route("/metrics", metrics, responses={**problems(), **text}, tags=["state"])
    app.add_api_route("/lag", lag, responses=answers, tags=["state"])
    app.add_api_route("/openapi.json", openapi, responses=answers, tags=["state"])


def problems_of_all() -> dict[int | str, dict[str, Any]]:
    """Those that need no handler."""
    return {status: found for status, found in problems().items() if status in (403, 421)}


def _json(status: int, found: Any) -> Any:
    return JSONResponse(found, status_code=status)


def _samples(shared: Shared) -> Iterator[Sample]:
    source, clients = shared.config.source.name, shared.clients
    yield Sample(catalog.STREAMS, (source,), len(clients))
    yield Sample(catalog.STREAMS_REFUSED, (source,), clients.refused)
    for reason, count in list(clients.cut.items()):
        yield Sample(catalog.STREAMS_CUT, (source, reason), count)
    yield from shared.alerts.samples()
    yield Sample(catalog.EVENTS, (source,), clients.events)
