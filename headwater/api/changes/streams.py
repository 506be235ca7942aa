"""What a request for a stream is answered with, whatever it is a stream of."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from cdc.protocol.relation import Relation
from headwater.api.access.principal import Principal
from headwater.api.changes.clients import RETRY_AFTER_S, Client
from headwater.api.changes.follow import Following
from headwater.api.changes.origin import Origin
from headwater.api.changes.place import Place, PlaceError, parse_place
from headwater.api.changes.responses import event_stream, one_answer
from headwater.api.changes.selection import Selection, selection
from headwater.api.changes.sse import HEADERS, KEEP_ALIVE_S
from headwater.api.guard import RELEASES
from headwater.api.problems import ProblemError, unavailable
from headwater.api.shared import Shared
from headwater.conditions.condition import ConditionError

TRANSPORT: Final = "headwater.transport"
"""In a request's scope: the transport of its connection."""
_LONGEST_WAIT_S: Final = 60.0

ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Events; JSON with `wait`",
        "content": {"text/event-stream": {}, "application/json": {}},
    }
}


class Asked(NamedTuple):
    """The parameters of a request. ``after`` is the id to go on from, "" to begin."""

    where: str
    key: str
    snapshot: bool
    after: str
    wait: float | None


def _asked(
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
) -> Asked:
    return Asked(where, key, snapshot, last_event_id or after, wait)


Question = Annotated[Asked, Depends(_asked)]
"""In the signature of a route."""


async def stream(
    shared: Shared,
    request: Request,
    who: Principal,
    origin: Origin,
    tables: Sequence[str],
    asked: Asked,
) -> Response:
    """To ``who``, as long as it may see rows of ``tables``. Raises ``ProblemError``, and what the
    origin raises."""
    chosen = _chosen(origin.relation, asked.where, asked.key)
    if not origin.overlaps:
        chosen = chosen._replace(nulls=dict.fromkeys(one.name for one in origin.relation.columns))
    place = _place(asked.after, chosen)
    now = await origin.now()
    client = _client(shared, request, who, origin.label)
    idle_s = KEEP_ALIVE_S if asked.wait is None else asked.wait
    following = Following(shared.sources, origin, chosen, client, idle_s)
    batches = following.batches(now, place, asked.snapshot)
    if asked.wait is not None:
        body = await one_answer(batches, asked.after)
        return Response(body, media_type="application/json")

    def may_go_on() -> bool:
        headers, cookies = request.headers, request.cookies
        return all(shared.access.still(who, headers, cookies, table) for table in tables)

    events = event_stream(shared.clients, client, batches, asked.after, may_go_on)
    return StreamingResponse(events, headers=HEADERS)


def _chosen(relation: Relation, where: str, key: str) -> Selection:
    try:
        return selection(relation, where, key)
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


def _client(shared: Shared, request: Request, who: Principal, label: str) -> Client:
    """One more stream, until the request is over. Raises ``ProblemError`` at the cap."""
    clients = shared.clients
    if clients.is_full:
        clients.refused += 1
        raise unavailable(
            "too-many-streams", f"{len(clients):,} streams are open, which is serve.max_streams",
            "try again later", RETRY_AFTER_S,
        )  # fmt: skip
    buffer_bytes = shared.config.serve.client_buffer_mb << 20
    client = Client(who.name, label, buffer_bytes, request.scope.get(TRANSPORT))
    clients.add(client)
    request.scope[RELEASES].append(lambda: clients.remove(client))
    return client
