"""Logging in and out by pages, and the colours of the pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request

from headwater.api.access.routes import ended, with_session
from headwater.api.problems import ProblemError
from headwater.api.shared import Shared
from headwater.console.context import THEME, THEMES, frame_of
from headwater.console.respond import LOGIN, form_of, html, local_path, see
from headwater.console.templating import page

_YEAR_S = 31_536_000


def login_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""

    def shown(request: Any, back: str, user: str = "", problem: ProblemError | None = None) -> Any:
        frame = frame_of(shared, request, "", None)
        said = "" if problem is None else problem.detail
        text = page("login", frame, back=back, user=user, problem=said)
        return html(text, HTTPStatus.OK if problem is None else problem.status)

    async def login_page(request: Request) -> Any:
        back = local_path(request.query_params.get("back", "/"))
        try:
            shared.principal(request)
        except ProblemError:
            return shown(request, back)
        return see(back)

    async def log_in(request: Request) -> Any:
        form = await form_of(request)
        back, user = local_path(form.get("back", "/")), form.get("user", "")[:64]
        try:
            address = request.client.host if request.client else ""
            secret = await shared.access.log_in(user, form.get("password", ""), address)
        except ProblemError as problem:
            return shown(request, back, user, problem)
        return with_session(see(back), request, secret, shared.access.sessions.length_s)

    async def log_out(request: Request) -> Any:
        return ended(see(LOGIN), request, shared.access.sessions)

    async def theme(request: Request) -> Any:
        form = await form_of(request)
        chosen = form.get("theme", "")
        response = see(local_path(form.get("back", "/")))
        if chosen in THEMES:
            response.set_cookie(
                THEME, chosen, max_age=_YEAR_S if chosen else 0, httponly=True, samesite="strict",
                secure=request.url.scheme == "https",
            )  # fmt: skip
        return response

    def add(path: str, route: Any, method: str) -> None:
        app.add_route(path, route, methods=[method], include_in_schema=False)

    add(LOGIN, login_page, "GET")
    add(LOGIN, log_in, "POST")
    add("/console/logout", log_out, "POST")
    add("/console/theme", theme, "POST")
