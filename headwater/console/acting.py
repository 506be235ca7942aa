"""Forms for what acts, and what comes of it: the handler judges who may, whatever a page showed."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from cdc.errors import HeadwaterError
from headwater.api.access.principal import Role
from headwater.api.actions.routes import refuse_unseen
from headwater.api.pipeline.figures import refuse_unknown
from headwater.api.problems import ProblemError, problem_of
from headwater.console.acts import ACTS, Act, Form, command_of
from headwater.console.context import Asked
from headwater.console.respond import form_of, local_path, see
from views.parse.table_references import tables_read

_PROMPT_S: Final = 1.5
"""What ends sooner is told at once."""
_LINES: Final = 200


async def form_page(asked: Asked) -> Any:
    """What an action does, and what it wants to know."""
    act = _act(asked)
    return _shown(asked, act, dict(asked.request.query_params))


async def do(asked: Asked) -> Any:
    """Begin it, and lead back to where somebody came from; or say there why not."""
    act, form = _act(asked), await form_of(asked.request)
    jobs, request = asked.shared.jobs, asked.request
    try:
        if act.of == "view":
            _refuse(asked, act, form)
        command = command_of(act, form)
        address = request.client.host if request.client else ""
        job = await jobs.start(asked.who, address, command, act.asks)
        await jobs.settled(job.id, asked.who, _PROMPT_S)
    except (ProblemError, HeadwaterError) as error:
        problem = error if isinstance(error, ProblemError) else problem_of(error)
        return _shown(asked, act, form, problem)
    return see(with_job(local_path(form.get("back", "/")), job.id))


async def stop(asked: Asked) -> Any:
    """Have a job end, as Ctrl-C would."""
    request, form = asked.request, await form_of(asked.request)
    address = request.client.host if request.client else ""
    await asked.shared.jobs.stop(asked.who, address, request.path_params["job"])
    return see(local_path(form.get("back", "/")))


async def audit(asked: Asked) -> Any:
    if asked.who.role != Role.OPERATOR:
        raise ProblemError(
            HTTPStatus.FORBIDDEN, "not-operator", "who did what is shown to operators"
        )
    lines = await asyncio.to_thread(asked.shared.audit.newest, _LINES)
    return asked.page("audit", lines=lines)


def with_job(path: str, job_id: str) -> str:
    """The page, which tells of the job, too."""
    parts = urlsplit(path)
    query = [pair for pair in parse_qsl(parts.query) if pair[0] != "job"]
    return parts._replace(query=urlencode([*query, ("job", job_id)])).geturl()


def _shown(asked: Asked, act: Act, form: Form, problem: ProblemError | None = None) -> Any:
    given = {name: form[name] for name in ("view", "number", "key") if form.get(name)}
    back = local_path(form.get("back", "/"))
    status = problem.status if problem else HTTPStatus.OK
    if problem:  # the form stays, with its refusal and what was typed
        asked.refreshed_by(f"/console/act/{act.name}?{urlencode({**given, 'back': back})}")
    return asked.page("act", status, act=act, form=form, given=given, back=back, problem=problem)


def _act(asked: Asked) -> Act:
    found = ACTS.get(asked.request.path_params["act"])
    if found is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, "not-found", "there is no such action")
    return found


def _refuse(asked: Asked, act: Act, form: Form) -> None:
    """Raise ``ProblemError`` for a view that is not declared, and for the key of a row that may not
    be seen."""
    view, config = form.get("view", ""), asked.shared.config
    refuse_unknown(config, view)
    if act.keyed and form.get("key"):
        refuse_unseen(asked.who, [one.name for one in tables_read(view, config.views[view].sql)])
