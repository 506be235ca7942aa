"""Actions as ``POST``, jobs, and the audit log. Each action is checked here for what its caller may
do and see; what it can do, its command decides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Body, FastAPI, Path, Query, Request

from headwater.actions import commands
from headwater.actions.commands import Command
from headwater.api.access.principal import ALL, Principal, Role
from headwater.api.actions import bodies
from headwater.api.actions.conditions import (
    checked_condition,
    is_pattern,
    qualified,
    refuse_key_range,
)
from headwater.api.pipeline.figures import refuse_unknown
from headwater.api.pipeline.routes import as_json
from headwater.api.problems import ProblemError
from headwater.api.shared import Shared, problems
from headwater.pipeline.work import Job
from views.parse.table_references import tables_read

_PROMPT_S: Final = 5.0
"""A command that ends sooner is answered with how it ended."""
_Number = Annotated[int, Path(ge=1, le=2**62)]


def action_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""
    _of_views(app, shared)
    _of_snapshots(app, shared)
    _of_dead_letters(app, shared)
    _of_jobs(app, shared)


def _of_views(app: FastAPI, shared: Shared) -> None:
    async def rebuild(
        request: Request, view: str, body: Annotated[bodies.Rebuild | None, Body()] = None
    ) -> Any:
        """`headwater view rebuild`: build the view again beside the live one, and swap."""
        _refuse(shared, request, view)
        wanted = (body or bodies.Rebuild()).model_dump()
        return await _done(shared, request, commands.rebuild(view, **wanted))

    async def rollback(
        request: Request, view: str, body: Annotated[bodies.Rollback | None, Body()] = None
    ) -> Any:
        """`headwater view rollback`: make an earlier generation live again."""
        _refuse(shared, request, view)
        to = body.to if body else None
        return await _done(shared, request, commands.rollback(view, to=to))

    async def replay(request: Request, view: str, body: bodies.Replay) -> Any:
        """`headwater replay`: apply the view's changes again from an earlier position."""
        _refuse(shared, request, view)
        wanted = commands.replay(view, place=body.place, archive=body.archive)
        return await _done(shared, request, wanted)

    async def verify(
        request: Request, view: str, body: Annotated[bodies.Verify | None, Body()] = None
    ) -> Any:
        """`headwater verify`: compare source and view. The job's result counts rows that differ,
        and shows none."""
        _refuse(shared, request, view)
        wanted = (body or bodies.Verify()).model_dump()
        return await _done(shared, request, commands.verify(view, **wanted))

    async def diff(
        request: Request, view: str, body: Annotated[bodies.Diff | None, Body()] = None
    ) -> Any:
        """`headwater view diff`: which rows a rebuild would change, counted."""
        _refuse(shared, request, view)
        wanted = (body or bodies.Diff()).model_dump()
        return await _done(shared, request, commands.diff(view, **wanted))

    for name, handler in (
        ("rebuild", rebuild), ("rollback", rollback), ("replay", replay), ("verify", verify),
        ("diff", diff),
    ):  # fmt: skip
        _add(app, f"/views/{{view}}/{name}", handler)


def _of_snapshots(app: FastAPI, shared: Shared) -> None:
    async def start(request: Request, body: bodies.Snapshot) -> Any:
        """`headwater snapshot start`: read tables into topics of their own. `where` and `key_range`
        are for who may see rows of the tables."""
        who = shared.principal(request)
        if body.where or body.key_range:
            refuse_unseen_of(who, body.tables)
            named = [qualified(table) for table in body.tables]
            for view in body.views:
                refuse_unknown(shared.config, view)
                refuse_unseen(who, _tables(shared, view))
                named += _tables(shared, view)
            if body.where:
                find = shared.tables.find
                body.where = await asyncio.to_thread(checked_condition, body.where, named, find)
            if body.key_range:
                refuse_key_range(shared.config, named)
        return await _done(shared, request, commands.start_snapshot(**body.model_dump()))

    async def resume(
        request: Request, number: _Number, body: Annotated[bodies.Resume | None, Body()] = None
    ) -> Any:
        """`headwater snapshot resume`."""
        despite = bool(body and body.despite_forecast)
        wanted = commands.resume_snapshot(number, despite_forecast=despite)
        return await _done(shared, request, wanted)

    async def pause(request: Request, number: _Number) -> Any:
        """`headwater snapshot pause`."""
        return await _done(shared, request, commands.pause_snapshot(number), asks=True)

    async def cancel(request: Request, number: _Number) -> Any:
        """`headwater snapshot cancel`: for good; its topics are deleted."""
        return await _done(shared, request, commands.cancel_snapshot(number), asks=True)

    _add(app, "/snapshots", start)
    for name, handler in (("resume", resume), ("pause", pause), ("cancel", cancel)):
        _add(app, f"/snapshots/{{number}}/{name}", handler)


def _of_dead_letters(app: FastAPI, shared: Shared) -> None:
    async def retry(
        request: Request, view: str, body: Annotated[bodies.Retry | None, Body()] = None
    ) -> Any:
        """`headwater dead-letters retry`: apply parked events, of some keys or of all. Keys are for
        who may see rows of the view's tables."""
        keys = body.keys if body else None
        _refuse(shared, request, view, keys)
        return await _done(shared, request, commands.retry_dead_letters(view, keys))

    async def discard(request: Request, view: str, body: bodies.Discard) -> Any:
        """`headwater dead-letters discard`: delete parked events without applying them."""
        _refuse(shared, request, view, body.keys)
        if bool(body.keys) == body.all:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, "wrong-request", "discard needs keys, or all: true"
            )
        wanted = commands.discard_dead_letters(view, body.keys, body.reason)
        return await _done(shared, request, wanted)

    for name, handler in (("retry", retry), ("discard", discard)):
        _add(app, f"/dead-letters/{{view}}/{name}", handler)


def _of_jobs(app: FastAPI, shared: Shared) -> None:
    async def jobs(request: Request) -> Any:
        """Jobs that run, and the newest that have ended since the server started."""
        return as_json({"jobs": shared.jobs.all(shared.principal(request))})

    async def job(request: Request, job: str) -> Any:
        """How far a job is, or how it ended."""
        return as_json(shared.jobs.find(job, shared.principal(request)))

    async def stop(request: Request, job: str) -> Any:
        """Have a job end, as Ctrl-C would: a snapshot pauses, a build can be run again."""
        who = shared.principal(request)
        return as_json(await shared.jobs.stop(who, _address(request), job))

    async def audit(request: Request, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Any:
        """Who did what when, and what came of it, the newest first. For operators."""
        who = shared.principal(request)
        if who.role != Role.OPERATOR:
            raise ProblemError(
                HTTPStatus.FORBIDDEN, "not-operator", f"{who.name} is not an operator"
            )
        return as_json({"lines": await asyncio.to_thread(shared.audit.newest, limit)})

    anything: dict[str, Any] = {
        "content": {"application/json": {"schema": {"type": "object"}}}, "description": "OK"
    }  # fmt: skip
    add, tags = app.add_api_route, ["actions"]
    add("/jobs", jobs, tags=tags, responses={**problems(), 200: anything})
    add("/jobs/{job}", job, tags=tags, responses={**problems(404), 200: {"model": Job}})
    add("/jobs/{job}/stop", stop, tags=tags, methods=["POST"],
        responses={**problems(404, 413), 200: {"model": Job}})  # fmt: skip
    add("/audit", audit, tags=tags, responses={**problems(), 200: anything})


async def _done(shared: Shared, request: Request, command: Command, asks: bool = False) -> Any:
    """Begin it; how it ended, or after some seconds the job that it is. ``asks``: it tells another
    job something, and need not wait for that one."""
    who = shared.principal(request)
    job = await shared.jobs.start(who, _address(request), command, asks)
    job = await shared.jobs.settled(job.id, who, _PROMPT_S)
    status = HTTPStatus.ACCEPTED if job.status == "running" else HTTPStatus.OK
    return as_json(job, status.value, {"Location": f"/jobs/{job.id}"})


def refuse_unseen(who: Principal, tables: Iterable[str]) -> None:
    """Raise ``ProblemError`` for who may not see rows of all of these tables: an answer about
    single keys or conditions tells values of rows."""
    if not all(map(who.may_see, tables)):
        raise ProblemError(
            HTTPStatus.FORBIDDEN, "not-granted",
            f"{who.name} may not see rows of all of these tables",
            "grant them with `headwater serve add-user` or `add-token`",
        )  # fmt: skip


def refuse_unseen_of(who: Principal, tables: Iterable[str]) -> None:
    """The same for names as somebody has sent them: a pattern is for who may see all."""
    refuse_unseen(who, (ALL if is_pattern(table) else qualified(table) for table in tables))


def _refuse(shared: Shared, request: Request, view: str, keys: list[str] | None = None) -> None:
    """Raise ``ProblemError`` for who is not known, a view that is not declared, and keys of rows
    that may not be seen."""
    who = shared.principal(request)
    refuse_unknown(shared.config, view)
    if keys:
        refuse_unseen(who, _tables(shared, view))


def _tables(shared: Shared, view: str) -> list[str]:
    return [table.name for table in tables_read(view, shared.config.views[view].sql)]


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _add(app: FastAPI, path: str, handler: Any) -> None:
    answers: dict[int | str, dict[str, Any]] = {
        **problems(404, 409, 413),
        200: {"model": Job, "description": "Done"},
        202: {"model": Job, "description": "Running: ask at Location"},
    }
    app.add_api_route(path, handler, methods=["POST"], tags=["actions"], responses=answers)
