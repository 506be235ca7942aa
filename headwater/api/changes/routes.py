"""``/tables``, ``/changes/{table}`` and ``/views/{view}/changes``."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from headwater.api.access.principal import ALL, Principal
from headwater.api.changes.streams import ANSWERS, Question, stream
from headwater.api.changes.view_origin import ViewOrigin
from headwater.api.pipeline.figures import refuse_unknown
from headwater.api.problems import ProblemError
from headwater.api.shared import Shared, problems
from headwater.api.tables import CapturedTable
from jobs.state.views.view_record import tables_of


def change_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""

    async def tables(request: Request) -> Any:
        """The captured tables, with key, columns and topic, and whether the caller may see rows."""
        who = shared.principal(request)
        found = await asyncio.to_thread(shared.tables.all)
        return JSONResponse({"tables": [_table(one, who) for one in found.values()]})

    async def changes(request: Request, table: str, asked: Question) -> Any:
        """The table's rows at one LSN, `snapshot-end`, then its changes, on one connection that
        stays open. With `wait`: the next events, as JSON."""
        who = shared.principal(request)
        found = await shared.table(table, who)
        shape = found.relation
        shared.config.source.own_topic(shape.schema, shape.table)
        origin = shared.sources.table(found)
        return await stream(shared, request, who, origin, [found.label], asked)

    async def view_changes(request: Request, view: str, asked: Question) -> Any:
        """The rows of a view that has `change_stream = true`, as its store has them, then their
        changes, as of a table. For who may see rows of all its tables."""
        who = shared.principal(request)
        refuse_unknown(shared.config, view)
        declared = shared.config.views[view]
        _granted(who, view, declared.sql)
        if not declared.change_stream:
            raise _without("it has no change_stream = true", "set that in its section, then run")
        found = await shared.sources.reads.feed(view)
        if found is None:
            raise _without("what its readers see was built without changes", "run")
        shown = _granted(who, view, found.sql)
        origin = ViewOrigin(shared.sources.reads, found)
        return await stream(shared, request, who, origin, shown, asked)

    app.add_api_route(
        "/tables", tables, tags=["changes"],
        responses={**problems(), 200: {"content": {"application/json": {}}}},
    )  # fmt: skip
    app.add_api_route(
        "/changes/{table}", changes, tags=["changes"], responses={**problems(404, 410), **ANSWERS}
    )
    app.add_api_route(
        "/views/{view}/changes", view_changes, tags=["changes"],
        responses={**problems(404, 409, 410), **ANSWERS},
    )  # fmt: skip


def _table(table: CapturedTable, who: Principal) -> dict[str, Any]:
    shape = table.relation
    return {
        "table": table.label,
        "topic": table.topic,
        "key": list(shape.key),
        "replica_identity": shape.replica_identity,
        "columns": [
            {"name": one.name, "type": one.type.name, "nullable": one.nullable,
             "treatment": str(one.treatment) if one.treatment else None}
            for one in shape.columns
        ],
        "granted": who.may_see(table.label),
    }  # fmt: skip


def _granted(who: Principal, view: str, sql: str) -> list[str]:
    """The tables that a view of this SQL shows rows of. Raises ``ProblemError`` unless ``who`` may
    see those of all."""
    tables = sorted(tables_of(view, sql)) or [ALL]
    if not all(map(who.may_see, tables)):
        raise ProblemError(
            HTTPStatus.FORBIDDEN, "not-granted",
            f"{who.name} may not see rows of all tables of this view",
            "grant them with `headwater serve add-user` or `add-token`",
        )  # fmt: skip
    return tables


def _without(reason: str, first: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.CONFLICT, "no-change-stream", f"the view has no change stream: {reason}",
        f"{first} `headwater view rebuild` for the view",
    )  # fmt: skip
