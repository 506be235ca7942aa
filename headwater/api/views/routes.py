"""``/views``: what is declared, and waiting until a view holds a change."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import JSONResponse

from headwater.api.pipeline.figures import refuse_unknown
from headwater.api.shared import Shared, problems
from headwater.api.views.waits import LONGEST_S

_JSON: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {}}}}


def view_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""

    async def views(request: Request) -> Any:
        """The declared views, with store, key, state and lag as far as they are known."""
        shared.principal(request)
        return JSONResponse({"views": _views(shared)})

    async def wait(
        request: Request,
        view: str,
        lsn: Annotated[
            str, Query(max_length=20, description="LSN to reach. Default: the source's now.")
        ] = "",
        timeout: Annotated[float, Query(ge=0, le=LONGEST_S, description="In seconds.")] = 10.0,
    ) -> Any:
        """Wait until the view holds everything that was committed below an LSN: 200. After the
        timeout: 504, with what it lacks. A view that a fault has ended: 409, at once."""
        shared.principal(request)
        refuse_unknown(shared.config, view)
        return JSONResponse(await shared.waits.wait(view, lsn, timeout))

    app.add_api_route("/views", views, responses={**problems(), **_JSON}, tags=["views"])
    app.add_api_route(
        "/views/{view}/wait", wait, responses={**problems(404, 409, 504), **_JSON}, tags=["views"]
    )


def _views(shared: Shared) -> list[dict[str, Any]]:
    seen = shared.watching.seen
    reports = {one.view: one for one in seen.report.views} if seen else {}
    found = []
    for name, view in shared.config.views.items():
        report = reports.get(name)
        found.append(
            {
                "view": name,
                "store": view.store,
                "kind": shared.config.stores[view.store].kind,
                "key": list(view.key),
                "state": report.state.value if report else "no data",
                "behind_s": round(report.lag_s, 3) if report else None,
                "parked_keys": report.parked_keys if report else None,
            }
        )
    return found
