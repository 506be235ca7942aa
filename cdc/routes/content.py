"""What the values of a topic are: events, rows alone, or CloudEvents. Pure."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

Content = Literal["event", "row", "cloudevents"]
Deletes = Literal["drop", "tombstone", "rewrite", "rewrite-with-tombstone"]


class TopicContent(NamedTuple):
    """``content`` with what goes with rows: ``added`` are fields beside the columns, as
    ``add.fields`` names them, ``headers`` those that records have as headers, each with
    ``header_prefix`` before it, ``deletes`` is what there is of a deleted row."""

    content: Content = "event"
    added: str = ""
    headers: str = ""
    header_prefix: str = "__"
    deletes: Deletes = "tombstone"

    @property
    def names_source(self) -> bool:
        """Whether values say which source they are of."""
        return self.content == "event"

    @property
    def recorded(self) -> dict[str, Any]:
        """What differs from events as they are, by Debezium's names."""
        return {
            name: value
            for name, field in CONTENT_NAMES.items()
            if (value := getattr(self, field)) != getattr(EVENTS, field)
        }


CONTENT_NAMES: Final = {
    "content": "content",
    "add.fields": "added",
    "add.headers": "headers",
    "add.headers.prefix": "header_prefix",
    "delete.tombstone.handling.mode": "deletes",
}
"""The setting of each field."""
EVENTS: Final = TopicContent()
"""Without a setting."""
ROWS: Final = TopicContent("row")
