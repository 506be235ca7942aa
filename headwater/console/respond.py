"""Answers that are pages: their headers, redirects after a form, forms read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.responses import HTMLResponse, RedirectResponse

from headwater.api.problems import ProblemError

LOGIN: Final = "/console/login"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Nothing inline, nothing from elsewhere, nothing that is made into code."""
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",  # with none, the Origin of a form is null: the guard's CSRF
}
_MOST_FIELDS: Final = 40


def html(text: str, status: int = HTTPStatus.OK) -> Any:
    return HTMLResponse(text, status_code=status, headers=_HEADERS)


def see(path: str) -> Any:
    """The page to be shown next."""
    return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)


def to_login(request: Any) -> Any:
    """And back afterwards. A part of a page cannot be redirected: the script is told to go."""
    back = local_path(_path(request))
    if is_part(request):
        with suppress(ValueError):
            if shown := urlsplit(request.headers.get("hx-current-url", "")).path:
                back = local_path(shown)
        return HTMLResponse(
            "", HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": f"{LOGIN}?back={quote(back)}"}
        )
    return see(f"{LOGIN}?back={quote(back)}")


def is_part(request: Any) -> bool:
    return bool(request.headers.get("hx-request") == "true")


def local_path(text: str) -> str:
    """A path of this server, or the overview: nobody is led elsewhere."""
    try:
        parts = urlsplit(text)
    except ValueError:  # as of an address that is none
        return "/"
    if parts.scheme or parts.netloc or not text.startswith("/") or text.startswith(("//", "/\\")):
        return "/"
    return text


def _path(request: Any) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path}{query}" if request.method == "GET" else "/"


async def form_of(request: Any) -> Mapping[str, str]:
    """The fields of a form as browsers send it. Raises ``ProblemError``."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    try:
        if kind != "application/x-www-form-urlencoded":
            raise ValueError
        text = (await request.body()).decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        detail = "the request is no form of this console"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-form", detail) from None
    return dict(pairs)
