"""What every page begins with: who asks, and what stands around the page."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from cdc.errors import HeadwaterError
from headwater.api.access.principal import Principal
from headwater.api.problems import ProblemError, problem_of
from headwater.api.shared import Shared
from headwater.console.respond import html, is_part, to_login
from headwater.console.templating import Frame, page
from headwater.pipeline.work import Job

THEME: Final = "headwater_theme"
THEMES: Final = ("", "light", "dark")
Page = Callable[["Asked"], Awaitable[Any]]


class Asked:
    """One request for a page, by somebody who may see it."""

    def __init__(self, shared: Shared, request: Any, section: str, who: Principal) -> None:
        self.shared, self.request, self.who = shared, request, who
        self.frame = frame_of(shared, request, section, who)

    def refreshed_by(self, path: str) -> None:
        """What the page asks for again every few seconds, "" for nothing."""
        is_again = bool(path)
        self.frame = self.frame._replace(path=path or self.frame.path, is_refreshed=is_again)

    def query(self, name: str) -> str:
        return str(self.request.query_params.get(name, ""))

    def page(self, name: str, status: int = HTTPStatus.OK, **values: Any) -> Any:
        """The answer."""
        return html(page(name, self.frame, **values), status)


def frame_of(shared: Shared, request: Any, section: str, who: Principal | None) -> Frame:
    picture = shared.figures.picture
    query = f"?{request.url.query}" if request.url.query else ""
    theme = request.cookies.get(THEME, "")
    return Frame(
        source=shared.config.source.name,
        section=section,
        path=request.url.path + query if request.method == "GET" else "/",
        is_refreshed=request.method == "GET",
        who=who,
        has_login=not shared.access.users.is_open_server,
        theme=theme if theme in THEMES else "",
        now_s=time.time(),
        alarms=len(picture.alarms),
        parked_keys=sum(one.parked_keys or 0 for one in picture.views),
        is_part=is_part(request),
        job=_job(shared, who, request.query_params.get("job", "")) if who else None,
    )


def _job(shared: Shared, who: Principal, job_id: str) -> Job | None:
    try:
        return shared.jobs.find(job_id, who) if job_id else None
    except ProblemError:
        return None  # forgotten: the audit log knows what came of it


def handler(shared: Shared, section: str, make: Page) -> Callable[..., Awaitable[Any]]:
    """A route that answers with a page, whatever happens: who is not known is sent to log in, and
    an error is told where the page would be."""

    async def handle(request: Any) -> Any:
        try:
            who = shared.principal(request)
        except ProblemError as problem:
            if problem.status == HTTPStatus.UNAUTHORIZED:
                return to_login(request)
            raise
        asked = Asked(shared, request, section, who)
        try:
            return await make(asked)
        except (ProblemError, HeadwaterError) as error:
            found = error if isinstance(error, ProblemError) else problem_of(error)
            return error_page(asked, found)

    return handle


def error_page(asked: Asked, problem: ProblemError) -> Any:
    return asked.page(
        "error",
        problem.status,
        title=problem.status.phrase,
        detail=problem.detail,
        hint=problem.hint,
    )
