"""Errors as problem details (RFC 9457): ``application/problem+json``."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.responses import Response

from cdc.errors import HeadwaterError, LogError, RetryableError, UsageError, sentence
from headwater.api.changes.log_reader import GoneError

CONTENT_TYPE: Final = "application/problem+json"
_URN: Final = "urn:headwater:problem:"


class ProblemError(Exception):
    """Answered as a problem. ``kind`` is a constant name for programs, ``detail`` says what is
    wrong, ``hint`` what to do."""

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind = status, kind
        self.detail, self.hint = sentence(detail), sentence(hint)
        self.headers, self.more = dict(headers or {}), dict(more or {})

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "type": _URN + self.kind,
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            **({"hint": self.hint} if self.hint else {}),
            **self.more,
        }


def answer(problem: ProblemError) -> Any:
    """The response."""
    return Response(
        orjson.dumps(problem.document()),
        status_code=problem.status.value,
        headers=problem.headers,
        media_type=CONTENT_TYPE,
    )


def problem_of(error: HeadwaterError) -> ProblemError:
    """An expected fault, as a client is told of it."""
    if isinstance(error, GoneError):
        return ProblemError(
            HTTPStatus.GONE, f"gone-{error.reason}", error.message, error.hint,
            more={"reason": error.reason},
        )  # fmt: skip
    if isinstance(error, RetryableError):
        return unavailable("server-away", error.message, error.hint)
    if isinstance(error, UsageError):
        return ProblemError(HTTPStatus.BAD_REQUEST, "wrong-request", error.message, error.hint)
    kind = "log" if isinstance(error, LogError) else "fault"
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, kind, error.message, error.hint)


def unavailable(kind: str, detail: str, hint: str = "", after_s: int = 5) -> ProblemError:
    """To be asked again after some seconds."""
    headers = {"Retry-After": str(after_s)}
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, kind, detail, hint, headers)
