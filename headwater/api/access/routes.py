"""Logging in and out, and who one is."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from starlette.responses import JSONResponse, Response

from headwater.api.access.sessions import COOKIE, Sessions
from headwater.api.shared import Shared, problems


def with_session(response: Any, request: Any, secret: str, length_s: float) -> Any:
    """The response, which sets the cookie of a session that has begun."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=round(length_s),
        httponly=True,
        secure=request.url.scheme == "https",
        samesite="strict",
    )
    return response


def ended(response: Any, request: Any, sessions: Sessions) -> Any:
    """The response, which takes the cookie away of a session that is ended now."""
    sessions.end(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def access_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""

    async def login(
        request: Request,
        user: Annotated[str, Body(max_length=64)],
        password: Annotated[str, Body(max_length=1_000)],
    ) -> Any:
        """Begin a session: the answer sets its cookie."""
        address = request.client.host if request.client else ""
        secret = await shared.access.log_in(user, password, address)
        response = Response(status_code=HTTPStatus.NO_CONTENT)
        return with_session(response, request, secret, shared.access.sessions.length_s)

    async def logout(request: Request) -> Any:
        """End the session."""
        return ended(Response(status_code=HTTPStatus.NO_CONTENT), request, shared.access.sessions)

    async def me(request: Request) -> Any:
        """Who asks, with role and granted tables."""
        who = shared.principal(request)
        return JSONResponse(
            {"name": who.name, "role": who.role.value, "tables": sorted(who.tables)}
        )

    done: dict[int | str, dict[str, Any]] = {204: {"description": "Done"}}
    add, tags = app.add_api_route, ["access"]
    add("/login", login, methods=["POST"], status_code=204, tags=tags, response_model=None,
        responses={**problems(409, 413, 429), **done})  # fmt: skip
    add("/logout", logout, methods=["POST"], status_code=204, tags=tags, response_model=None,
        responses={**problems(413), **done})  # fmt: skip
    add("/me", me, tags=tags,
        responses={**problems(), 200: {"content": {"application/json": {}}}})  # fmt: skip
