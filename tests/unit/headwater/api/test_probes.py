"""`/readyz` of serve: whoever may know is told what is missing, others are told who may."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import FastAPI

from headwater.api.problems import ProblemError
from headwater.api.state import state_routes

AWAY = "the source does not answer"
ASK = "what is missing is told after a login, or to a token: GET /readyz with it"


def ready(missing: list[str], known: bool) -> tuple[int, Any]:
    def principal(_request: object) -> None:
        if not known:
            raise ProblemError(HTTPStatus.UNAUTHORIZED, "no-login", "log in")

    probes = SimpleNamespace(ready=lambda: (not missing, missing), live=lambda: (True, ""))
    watching = SimpleNamespace(samples=None, probes=probes, registry=None)
    app = FastAPI()
    state_routes(app, cast(Any, SimpleNamespace(watching=watching, principal=principal)))
    route = next(one for one in app.routes if getattr(one, "path", "") == "/readyz")
    answer = asyncio.run(cast(Any, route).endpoint(None))
    return answer.status_code, json.loads(answer.body)


@pytest.mark.parametrize(
    ("missing", "known", "status", "told"),
    [
        ([], False, 200, {"ready": True}),
        ([], True, 200, {"ready": True, "missing": []}),
        ([AWAY], True, 503, {"ready": False, "missing": [AWAY]}),
        ([AWAY], False, 503, {"ready": False, "reason": ASK}),
    ],
)
def test_what_is_missing_is_told_to_who_may_know(
    missing: list[str], known: bool, status: int, told: Any
) -> None:
    assert ready(missing, known) == (status, told)
