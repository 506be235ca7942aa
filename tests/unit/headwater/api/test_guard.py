"""What other sites may have a browser ask for: a page of the console by a link, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cdc.config import Serve
from headwater.api.guard import Guard

LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def status(path: str, headers: Mapping[str, str], method: str = "GET") -> int:
    """What a request is answered with; 200 where it passes."""
    answered: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answered.append(message["status"])

    async def app(*_: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    given = {"host": "127.0.0.1:8484", **headers}
    named = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": named}
    asyncio.run(Guard(app, Serve())(scope, receive, send))
    return answered[0]


@pytest.mark.parametrize("path", ["/", "/status", "/console/views/v"])
def test_a_link_from_another_site_leads_to_the_console(path: str) -> None:
    assert status(path, LINK) == 200
    assert status(path, LINK, "HEAD") == 200
    assert status(path, LINK | {"sec-fetch-site": "same-site"}) == 200


@pytest.mark.parametrize(
    ("path", "changed", "method"),
    [
        ("/", {}, "POST"),
        ("/console/do/rebuild", {}, "POST"),
        ("/console/views/v", {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, "GET"),
        ("/console/views/v", {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, "GET"),
        ("/console/views/v", {"sec-fetch-dest": "iframe"}, "GET"),
        ("/console/views/v", {"origin": "http://elsewhere.example"}, "GET"),
        ("/changes/orders", {}, "GET"),
        ("/pipeline", {}, "GET"),
        ("/consoles", {}, "GET"),
    ],
)
def test_all_else_from_another_site_is_refused(
    path: str, changed: dict[str, str], method: str
) -> None:
    assert status(path, LINK | changed, method) == 403


@pytest.mark.parametrize("origin", ["http://[", "null", "http://", "http://127.0.0.1:99"])
def test_an_origin_that_is_none_of_ours_is_foreign(origin: str) -> None:
    assert status("/pipeline", {"origin": origin}) == 403
    assert status("/pipeline", {"origin": "http://127.0.0.1:8484"}) == 200
