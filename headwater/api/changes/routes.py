"""``/tables`` and ``/changes/{table}``."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import FastAPI, Header, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from headwater.api.access.principal import Principal
from headwater.api.changes.clients import RETRY_AFTER_S, Client
from headwater.api.changes.follow import Following
from headwater.api.changes.place import Place, PlaceError, parse_place
from headwater.api.changes.responses import event_stream, one_answer
from headwater.api.changes.selection import Selection, selection
from headwater.api.changes.sse import HEADERS, KEEP_ALIVE_S
from headwater.api.guard import RELEASES
from headwater.api.problems import ProblemError, unavailable
from headwater.api.shared import Shared, problems
from headwater.api.tables import CapturedTable
from headwater.conditions.condition import ConditionError

TRANSPORT: Final = "headwater.transport"
"""In a request's scope: the transport of its connection."""
_LONGEST_WAIT_S: Final = 60.0


def change_routes(app: FastAPI, shared: Shared) -> None:
    """Add them."""

    async def tables(request: Request) -> Any:
        """The captured tables, with key, columns and topic, and whether the caller may see rows."""
        who = shared.principal(request)
        found = await asyncio.to_thread(shared.tables.all)
        return JSONResponse({"tables": [_table(one, who) for one in found.values()]})

    async def changes(
        request: Request,
        table: str,
        where: Annotated[
            str,
            Query(max_length=1_000, description="A condition: total > 1000 and status <> 'new'."),
        ] = "",
        key: Annotated[str, Query(max_length=1_000, description="The key of one row.")] = "",
        snapshot: Annotated[
            bool, Query(description="False: changes from now on, without rows.")
        ] = True,
        after: Annotated[
            str, Query(max_length=20_000, description="As Last-Event-ID, which wins.")
        ] = "",
        wait: Annotated[
            float | None,
            Query(ge=0, le=_LONGEST_WAIT_S, description="Long poll: JSON after so many seconds."),
        ] = None,
        last_event_id: Annotated[str, Header(max_length=20_000)] = "",
    ) -> Any:
        """The table's rows at one LSN, `snapshot-end`, then its changes, on one connection that
        stays open. With `wait`: the next events, as JSON."""
        who = shared.principal(request)
        found = await shared.table(table, who)
        chosen = _chosen(found, where, key)
        text = last_event_id or after
        place = _place(text, chosen)
        now = await shared.sources.logs.of(found.topic)
        client = _client(shared, request, who, found)
        idle_s = KEEP_ALIVE_S if wait is None else wait
        following = Following(shared.sources, found, chosen, client, idle_s)
        batches = following.batches(now, place, snapshot)
        if wait is not None:
            body = await one_answer(batches, text)
            return Response(body, media_type="application/json")

        def may_go_on() -> bool:
            return shared.access.still(who, request.headers, request.cookies, found.label)

        stream = event_stream(shared.clients, client, batches, text, may_go_on)
        return StreamingResponse(stream, headers=HEADERS)

    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Events; JSON with `wait`",
            "content": {"text/event-stream": {}, "application/json": {}},
        }
    }
    app.add_api_route(
        "/tables", tables, tags=["changes"],
        responses={**problems(), 200: {"content": {"application/json": {}}}},
    )  # fmt: skip
    app.add_api_route(
        "/changes/{table}", changes, tags=["changes"], responses={**problems(404, 410), **answers}
    )


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


def _chosen(table: CapturedTable, where: str, key: str) -> Selection:
    try:
        return selection(table.relation, where, key)
    except ConditionError as error:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "wrong-filter", f"filter: {error}", error.hint
        ) from None


def _place(text: str, chosen: Selection) -> Place | None:
    if not text:
        return None
    hint = "send the id of an event of this stream, or none to begin with a snapshot"
    try:
        place = parse_place(text)
    except PlaceError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-id", f"id: {error}", hint) from None
    if place.filter_id != chosen.digest:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "other-filter", "the id is of a stream with another filter",
            "send the same where and key as before, or no id",
        )  # fmt: skip
    return place


def _client(shared: Shared, request: Request, who: Principal, table: CapturedTable) -> Client:
    """One more stream, until the request is over. Raises ``ProblemError`` at the cap."""
    clients = shared.clients
    if clients.is_full:
        clients.refused += 1
        raise unavailable(
            "too-many-streams", f"{len(clients):,} streams are open, which is serve.max_streams",
            "try again later", RETRY_AFTER_S,
        )  # fmt: skip
    buffer_bytes = shared.config.serve.client_buffer_mb << 20
    client = Client(who.name, table.label, buffer_bytes, request.scope.get(TRANSPORT))
    clients.add(client)
    request.scope[RELEASES].append(lambda: clients.remove(client))
    return client
