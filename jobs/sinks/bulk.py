"""OpenSearch's bulk format: requests from documents, and what the answers mean. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from cdc.errors import SinkError
from cdc.lsn import Position
from jobs.sinks import COMMIT_LSN, ORDINAL
from jobs.sinks.documents import Document, Stored
from jobs.sinks.mapping import DELETED_AT
from jobs.sinks.refusing import TOLD, Refused, RowsRefusedError
from jobs.sinks.schema import REBUILD

BODY_BYTES = 2 << 20
"""Past about 4 MB a body gains nothing and costs the server memory."""
_ID_BYTES = 512
_FIELD = re.compile(r"field \[([^\]]*)\] of type \[([^\]]*)\]|introduction of \[([^\]]*)\]")

# What a version conflict says; reading it saves asking for the version of every older document.
_HELD = re.compile(r"current version \[(\d+)\] is higher")


class Request(NamedTuple):
    """One body and the documents in it, in order."""

    body: bytes
    documents: Sequence[Document]


class Refusal(NamedTuple):
    """A document that OpenSearch will not take, told without its values."""

    status: int
    reason: str
    id_hash: str
    document: Document

    @property
    def of_document(self) -> bool:
        """Whether it is this document that cannot be taken, not the index or the user."""
        return self.status in (400, 413)

    @property
    def cause(self) -> str:
        return f"OpenSearch refused it: HTTP {self.status} {self.reason}"


class Answer(NamedTuple):
    """What became of a request's documents; the others were written, or are older."""

    ties: list[Document]
    """Their version is the stored one, or the answer does not tell: the ordinal decides."""
    busy: str
    """Why the server wants some of them again, or nothing."""
    refused: list[Refusal]


def document_id(key: str) -> str:
    """The key, or its SHA-256 where OpenSearch cannot take it: empty, or over 512 bytes."""
    encoded = key.encode()
    if 0 < len(encoded) <= _ID_BYTES:
        return key
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def requests(documents: Sequence[Document], version_type: str, now_ms: int) -> Iterator[Request]:
    """Bulk bodies of about ``BODY_BYTES``, each line pair one document with its version."""
    lines: list[bytes] = []
    size = start = 0
    for number, document in enumerate(documents):
        line = _lines(document, version_type, now_ms)
        if lines and size + len(line) > BODY_BYTES:
            yield Request(b"".join(lines), documents[start:number])
            lines, size, start = [], 0, number
        lines.append(line)
        size += len(line)
    if lines:
        yield Request(b"".join(lines), documents[start:])


def _lines(document: Document, version_type: str, now_ms: int) -> bytes:
    lsn, ordinal = document.position
    head = (
        f'{{"index":{{"_id":{orjson.dumps(document_id(document.id)).decode()},"version":{lsn},'
        f'"version_type":"{version_type}"}}}}'
    )
    fields = document.body[1:-1] if document.body is not None else f'"{DELETED_AT}":{now_ms}'
    return f'{head}\n{{{fields},"{COMMIT_LSN}":{lsn},"{ORDINAL}":{ordinal}}}\n'.encode()


def read_answer(request: Request, response: dict[str, Any]) -> Answer:
    """Sort a response's items by what has to be done about them."""
    answer = Answer([], "", [])
    if not response["errors"]:
        return answer
    for document, item in zip(request.documents, response["items"], strict=True):
        status, error = item["index"]["status"], item["index"].get("error", {})
        if status == 409:
            held = _HELD.search(error.get("reason", ""))
            if held is None or int(held[1]) == document.position.commit_lsn:
                answer.ties.append(document)
        elif status in (429, 503):
            answer = answer._replace(busy=f"{status} {error.get('type', '')}")
        elif status >= 300:
            digest = hashlib.sha256(document.id.encode()).hexdigest()[:12]
            answer.refused.append(Refusal(status, reason(error), digest, document))
    return answer


def refusal(index: str, place: str, refused: Sequence[Refusal]) -> SinkError:
    """The error of a batch some of whose documents were refused; a ``RowsRefusedError`` when it is
    only these that cannot be taken."""
    of_batch = [one for one in refused if not one.of_document]
    first = (of_batch or refused)[0]
    message = (
        f"index {index}: {place} refused {len(refused)} document(s), the first"
        f" (SHA-256 of its key {first.id_hash}): HTTP {first.status} {first.reason}"
    )
    if of_batch:
        return SinkError(message, REBUILD)
    rows = [Refused(one.document.id, one.document.position, one.cause) for one in refused[:TOLD]]
    return RowsRefusedError(message, REBUILD, rows)


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
