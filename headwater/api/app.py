"""The application: what is shared, and the routes.

Handlers check who asks and what may be shown before anything else; nothing is hidden by leaving
out a button.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from cdc.config import Config, load_config
from cdc.errors import HeadwaterError
from headwater.alerts.service import RowAlerts
from headwater.api.access.login import Access
from headwater.api.access.routes import access_routes
from headwater.api.actions.audit import NAME as AUDIT
from headwater.api.actions.audit import Audit
from headwater.api.actions.jobs import Jobs
from headwater.api.actions.routes import action_routes
from headwater.api.changes.clients import Clients
from headwater.api.changes.follow import Sources
from headwater.api.changes.routes import change_routes
from headwater.api.guard import App, Guard
from headwater.api.pipeline.figures import Figures
from headwater.api.pipeline.history_file import Memory
from headwater.api.pipeline.routes import pipeline_routes
from headwater.api.problems import ProblemError, answer, problem_of
from headwater.api.shared import Shared
from headwater.api.spool.spools import Spools
from headwater.api.state import state_routes
from headwater.api.state_watch import Watching
from headwater.api.tables import Tables
from headwater.api.views.routes import view_routes
from headwater.api.views.waits import Waits

Routes = Callable[[FastAPI, Shared], None]
"""Adds routes."""
_TICK_S: Final = 1.0
_JOBS_S: Final = 15.0
"""For jobs to end with the server, then they are killed: what stops a server often waits 30 s."""
_DESCRIPTION: Final = """
Rows and changes of captured tables as server-sent events, waiting until a view holds a change, and
how late everything is. Errors are problem details (RFC 9457). The reference is docs/serve.md.
"""


def application(config: Config, config_path: Path, *more: Routes) -> tuple[App, FastAPI]:
    """The application with ``more`` routes, and the FastAPI app inside of it. ``config_path`` is
    for the commands that it runs. Raises ``UsageError`` for a file of users that cannot be read,
    and for alerts on rows that do not fit their tables."""
    shared = _shared(config, config_path)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        shared.watching.start()
        shared.alerts.start()
        running = [asyncio.create_task(one) for one in (_tick(shared), shared.sources.hubs.watch())]
        yield
        for task in running:
            task.cancel()
        await asyncio.gather(asyncio.to_thread(shared.alerts.close), shared.jobs.end(_JOBS_S))
        shared.close()

    app = FastAPI(
        title="Headwater",
        version=version("headwater"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )
    app.state.shared = shared
    own: tuple[Routes, ...] = (
        change_routes, view_routes, access_routes, state_routes, pipeline_routes,
        action_routes,
    )  # fmt: skip
    for routes in (*own, *more):
        routes(app, shared)
    for kind, handler in (
        (ProblemError, _on_problem),
        (HeadwaterError, _on_error),
        (RequestValidationError, _on_invalid),
        (HTTPException, _on_http),
    ):
        app.add_exception_handler(kind, handler)
    return Guard(app, config.serve), app


def _shared(config: Config, config_path: Path) -> Shared:
    folder = Path(config.serve.spool)
    spools = Spools(config, folder)
    tables, watching = Tables(config), Watching(config)
    memory = Memory(folder, config.views)
    watching.noted = memory.add
    figures = Figures(config, watching, tables, partial(load_config, config_path))
    audit = Audit(Path(config.serve.audit) if config.serve.audit else folder / AUDIT)
    return Shared(
        config=config,
        access=Access(config.serve),
        tables=tables,
        clients=Clients(config.serve.max_streams),
        sources=Sources.of(config, spools),
        waits=Waits(config),
        watching=watching,
        figures=figures,
        memory=memory,
        audit=audit,
        jobs=Jobs(config_path, audit, figures.changed),
        alerts=RowAlerts(config, tables.find),
    )


async def _tick(shared: Shared) -> None:
    while True:
        shared.watching.probes.moved()
        shared.clients.judge_time()
        await asyncio.sleep(_TICK_S)


async def _on_problem(_: Request, error: Any) -> Any:
    return answer(error)


async def _on_error(_: Request, error: Any) -> Any:
    return answer(problem_of(error))


async def _on_invalid(_: Request, error: Any) -> Any:
    found = error.errors()[0]
    where = ".".join(str(part) for part in found["loc"])
    detail = f"{where}: {found['msg']}"
    return answer(ProblemError(HTTPStatus.BAD_REQUEST, "wrong-request", detail))


async def _on_http(_: Request, error: Any) -> Any:
    status = HTTPStatus(error.status_code)
    headers = dict(error.headers or {})
    kind = "-".join(status.phrase.lower().split())
    return answer(ProblemError(status, kind, status.description or status.phrase, headers=headers))
