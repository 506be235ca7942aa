"""The routes of the console."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from headwater.api.problems import ProblemError
from headwater.api.shared import Shared
from headwater.console import acting, pages, past
from headwater.console.assets import PREFIX, assets
from headwater.console.context import Page, handler
from headwater.console.login import login_routes

_PAGES: Final[tuple[tuple[str, str, Page], ...]] = (
    ("/", "overview", pages.overview),
    ("/status", "overview", pages.status),
    ("/console/charts", "overview", past.of_pipeline),
    ("/console/source", "source", pages.source),
    ("/console/topics", "topics", pages.topics),
    ("/console/views", "views", pages.views),
    ("/console/views/{view}", "views", pages.view),
    ("/console/views/{view}/charts", "views", past.of_view),
    ("/console/snapshots", "snapshots", pages.snapshots),
    ("/console/dead-letters", "dead-letters", pages.dead_letters),
    ("/console/changes", "changes", pages.changes),
    ("/console/trace", "changes", pages.trace),
    ("/console/alarms", "alarms", pages.alarms),
    ("/console/alarms/{code}", "alarms", pages.alarm),
    ("/console/audit", "audit", acting.audit),
    ("/console/act/{act}", "", acting.form_page),
)
_DONE: Final[tuple[tuple[str, Page], ...]] = (
    ("/console/do/{act}", acting.do),
    ("/console/jobs/{job}/stop", acting.stop),
)
_KEPT: Final = "public, max-age=31536000, immutable"


def console_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""
    app.state.sparks = past.Sparks(shared)
    for path, section, page in _PAGES:
        app.add_route(path, _of(handler(shared, section, page)), include_in_schema=False)
    for path, page in _DONE:
        route = _of(handler(shared, "", page))
        app.add_route(path, route, methods=["POST"], include_in_schema=False)
    app.add_route(f"{PREFIX}/{{name}}", _static, include_in_schema=False)
    login_routes(app, shared)


def _of(handle: Any) -> Any:
    """As Starlette calls a route."""

    async def route(request: Request) -> Any:
        return await handle(request)

    return route


async def _static(request: Request) -> Any:
    """Nothing of it is secret: the page to log in needs it."""
    found = assets().get(request.path_params["name"])
    if found is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, "not-found", "there is no such file")
    is_current = request.url.query == found.mark
    headers = {
        "ETag": f'"{found.mark}"',
        "Cache-Control": _KEPT if is_current else "no-cache",
        "Content-Type": found.kind,
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(found.body, headers=headers)
