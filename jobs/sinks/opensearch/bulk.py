"""OpenSearch's bulk format: requests from documents, and what the answers mean. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.documents import Document, Stored
from jobs.sinks.opensearch.mapping import DELETED_AT
from jobs.sinks.row_errors import Refused

BODY_BYTES = 2 << 20
"""Past about 4 MB a body gains nothing and costs the server memory."""
_ID_BYTES = 512
_OF_DOCUMENTS = (400, 413)
_FIELD = re.compile(r"field \[([^\]]*)\] of type \[([^\]]*)\]|introduction of \[([^\]]*)\]")

# What a version conflict says; reading it saves asking for the version of every older document.
_LOCKED = "cluster_block_exception"
"""With status 429, the block that a server puts on indexes at its flood stage."""
_HELD = re.compile(r"current version \[(\d+)\] is higher")


class Request(NamedTuple):
    """One body and the documents in it, in order."""

    body: bytes
    documents: Sequence[Document]


class Answer(NamedTuple):
    """What became of a request's documents; the others were written, or are older."""

    ties: list[Document]
    """Their version is the stored one, or the answer does not tell: the ordinal decides."""
    busy: list[Document]
    """The server wants them again, later."""
    refused: list[Refused]
    fault: str
    """Why none of them could be written: it is about the index, or the server."""
    why: str = ""
    """What it says of those that it wants again."""
    full: bool = False
    """It wants them later, as its disk is full: it has locked the index until there is room."""


def document_id(key: str) -> str:
    """The key, or its SHA-256 where OpenSearch cannot take it: empty, or over 512 bytes."""
    encoded = key.encode()
    if 0 < len(encoded) <= _ID_BYTES:
        return key
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def request(
    documents: Sequence[Document], version_type: str, now_ms: int, most_bytes: int = BODY_BYTES
) -> Request:
    """The first of ``documents``, as many as a body of ``most_bytes`` holds, at least one."""
    lines: list[bytes] = []
    size = 0
    for document in documents:
        line = _lines(document, version_type, now_ms)
        if lines and size + len(line) > most_bytes:
            break
        lines.append(line)
        size += len(line)
    return Request(b"".join(lines), documents[: len(lines)])


def _lines(document: Document, version_type: str, now_ms: int) -> bytes:
    lsn, ordinal = document.position
    head = (
        f'{{"index":{{"_id":{orjson.dumps(document_id(document.id)).decode()},"version":{lsn},'
        f'"version_type":"{version_type}"}}}}'
    )
    fields = document.body[1:-1] if document.body is not None else f'"{DELETED_AT}":{now_ms}'
    return f'{head}\n{{{fields},"{COMMIT_LSN}":{lsn},"{ORDINAL}":{ordinal}}}\n'.encode()


def read_answer(request: Request, response: dict[str, Any]) -> Answer:
    """Sort a response's items by what has to be done about them.

    Status 400 is about a document. Any other that is no success is about the index or the server,
    and the same for all.
    """
    answer = Answer([], [], [], "")
    if not response["errors"]:
        return answer
    for document, item in zip(request.documents, response["items"], strict=True):
        status, error = item["index"]["status"], item["index"].get("error", {})
        if status == 409:
            held = _HELD.search(error.get("reason", ""))
            if held is None or int(held[1]) == document.position.commit_lsn:
                answer.ties.append(document)
        elif is_passing(status):
            answer.busy.append(document)
            full = answer.full or error.get("type") == _LOCKED
            answer = answer._replace(full=full, why=f"HTTP {status} {reason(error)}")
        elif status in _OF_DOCUMENTS:
            answer.refused.extend(refusals([document], status, reason(error)))
        elif status >= 300:
            answer = answer._replace(fault=f"HTTP {status} {reason(error)}")
    return answer


def is_passing(status: int) -> bool:
    """Whether it is about the server as it is now: too busy, starting, losing a node."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def refusals(documents: Sequence[Document], status: int, said: str) -> list[Refused]:
    """Documents that OpenSearch will not take, told without their values."""
    cause = f"OpenSearch refused it: HTTP {status} {said}"
    return [Refused(document.id, document.position, cause) for document in documents]


def stored(item: dict[str, Any]) -> Stored | None:
    """What an ``_mget`` found under one id."""
    if not item.get("found"):
        return None
    source = item["_source"]
    body = None if DELETED_AT in source else source
    return Stored(Position(source[COMMIT_LSN], source[ORDINAL]), body)


def reason(error: dict[str, Any]) -> str:
    """An error's type and the field it names; the rest of its text may hold values."""
    match = _FIELD.search(str(error.get("reason", "")))
    if match is None:
        return str(error.get("type", "unknown"))
    return f"{error.get('type')} in field {match[1] or match[3]}"
