"""Writes documents to an OpenSearch index, from any process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from jobs.sinks.batch_writer import with_keys
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.documents import Document, Stored, filled
from jobs.sinks.opensearch.bulk import document_id, stored
from jobs.sinks.opensearch.client import Client, Refusal, Server
from jobs.sinks.opensearch.json_fields import with_objects
from jobs.sinks.opensearch.requests import Sending
from jobs.sinks.row_errors import Refused, RowsError, raise_together, refused_rows
from jobs.sinks.schema_evolution import REBUILD

READ_DOCUMENTS: Final = 500
_STATUS: Final = {
    "index_not_found_exception": HTTPStatus.NOT_FOUND,
    "illegal_argument_exception": HTTPStatus.BAD_REQUEST,
    "security_exception": HTTPStatus.FORBIDDEN,
}
"""Of items that were not looked for; what else there is passes."""


@dataclass(frozen=True, slots=True)
class OpenSearchWriter:
    """Writes documents: the connection is made where it is called."""

    server: Server
    view: str
    alias: str
    objects: tuple[str, ...] = ()
    """Columns of JSON that the index has as objects."""

    def __call__(self, documents: list[Document]) -> None:
        errors: list[RowsError] = []
        whole = with_keys(self.view, documents, errors)
        if any(document.unchanged for document in whole):
            whole = self._filled(whole, errors)
        odd: list[Refused] = []
        if self.objects:
            whole, odd = with_objects(whole, self.objects)
        first = Sending(self.server, self.alias, "external", whole)
        first.run()
        second = Sending(self.server, self.alias, "external_gte", self._later(first.ties))
        second.run()
        if refused := odd + first.refused + second.refused:
            where = f"index {self.alias}: {self.server.place}"
            errors.insert(0, refused_rows(where, refused, REBUILD))
        raise_together(errors)

    def _later(self, ties: Sequence[Document]) -> list[Document]:
        """Of documents with the stored one's version, those later in that transaction."""
        held = self._read(ties, f"{COMMIT_LSN},{ORDINAL}")
        return [
            document
            for document, other in zip(ties, held, strict=True)
            if other is not None and other.position < document.position
        ]

    def _filled(self, documents: Sequence[Document], errors: list[RowsError]) -> list[Document]:
        lacking = [document for document in documents if document.unchanged]
        whole = [document for document in documents if not document.unchanged]
        return whole + filled(self.view, lacking, self._read(lacking, "*"), errors)

    def _read(self, documents: Sequence[Document], fields: str) -> list[Stored | None]:
        found: list[Stored | None] = []
        for start in range(0, len(documents), READ_DOCUMENTS):
            part = documents[start : start + READ_DOCUMENTS]
            ids = [document_id(document.id) for document in part]
            read = partial(read_items, self.alias, ids, fields)
            found += map(stored, self.server.call_on(self.alias, read))
        return found


def read_items(alias: str, ids: Sequence[str], fields: str, client: Client) -> Any:
    """What ``_mget`` says of each id. One that could not be looked for is no answer: a node that
    was started anew says so of documents before it has opened their shards."""
    answer = client.mget(index=alias, body={"ids": ids}, params={"_source_includes": fields})
    for item in answer["docs"]:
        if error := item.get("error"):
            status = _STATUS.get(error["type"], HTTPStatus.SERVICE_UNAVAILABLE)
            raise Refusal(status, error["type"], {"error": error})
    return answer["docs"]
