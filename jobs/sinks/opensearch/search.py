"""All that a search of an OpenSearch index finds, page by page: every document once, or a fault.

Not ``opensearchpy.helpers.scan``: it takes an empty page for the end before it asks whether shards
failed, and does not look at ``timed_out``, so that it may find less without a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from cdc.errors import HeadwaterError, RetryableError, SinkError
from jobs.sinks.opensearch.client import Client, Server

SCAN_DOCUMENTS: Final = 2_000
_KEEP: Final = "5m"
_WHOLE: Final = "false"
"""Without the documents of a shard that is not there the answer would be less, and no fault."""


def pages(server: Server, alias: str, what: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """What a search of an alias finds, as it was when it began.

    Raises ``RetryableError`` when a page does not come: each is given out once, so that nobody can
    ask for it again. A node that was started anew has forgotten the search. ``SinkError`` when the
    server refuses to give it.
    """
    page = server.call_on(alias, partial(_begun, alias, what))
    cursor = {"scroll": _KEEP, "scroll_id": page["_scroll_id"]}
    try:
        while hits := _hits(server, alias, page):
            yield hits
            page = _next(server, alias, cursor)
            cursor["scroll_id"] = page["_scroll_id"]
    finally:
        done = {"scroll_id": [cursor["scroll_id"]]}
        with suppress(HeadwaterError):  # it ends by itself then, when it was not asked for a while
            server.attempt(lambda client: client.clear_scroll(body=done, ignore=404))


def _begun(alias: str, what: dict[str, Any], client: Client) -> Any:
    body = {"size": SCAN_DOCUMENTS, "sort": ["_doc"], **what}
    whole = {"allow_partial_search_results": _WHOLE}
    return client.search(index=alias, body=body, scroll=_KEEP, params=whole)


def _next(server: Server, alias: str, cursor: dict[str, str]) -> Any:
    try:
        return server.attempt(lambda client: client.scroll(body=cursor))
    except RetryableError as error:
        raise _lost(error.message) from error
    except SinkError as error:
        if getattr(error.__cause__, "status_code", 0) != HTTPStatus.NOT_FOUND:
            raise
        raise _lost(f"{server.place} forgot what was searched in {alias}") from error


def _hits(server: Server, alias: str, page: dict[str, Any]) -> Any:
    shards = page["_shards"]
    if page["timed_out"] or shards["failed"] or shards["successful"] < shards["total"]:
        raise _lost(f"{server.place} lacked shards of {alias} as it was searched")
    return page["hits"]["hits"]


def _lost(why: str) -> RetryableError:
    return RetryableError(why, "wait: the batch or command repeats the search")
