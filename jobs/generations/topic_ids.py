"""Whether the topics of a view's stream are still those that it has read."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.errors import ViewError
from jobs.generations.view_state import ViewState, read_document, write_document


def refuse_recreated(state: ViewState, view: str, topic_ids: Mapping[str, str]) -> None:
    """Offsets are those of the topics that a generation's stream began with: raises ``ViewError``
    if Kafka has another one under a name now. ``topic_ids`` are Kafka's; an id that was not known
    yet is remembered. Only by whoever holds the stream."""
    document, beginning = read_document(state.file) or {}, state.beginning()
    known: dict[str, str] = document.get("topic_ids", {})
    held = {**(beginning.topic_ids if beginning else {}), **known}
    for topic, id_ in topic_ids.items():
        if held.setdefault(topic, id_) != id_:
            raise ViewError(
                f"view {view}: topic {topic} was recreated, or belongs to another Kafka "
                "cluster: the view's position in it is unknown",
                f"run `headwater view rebuild {view}`",
            )
    if held != known:
        write_document(state.file, {**document, "topic_ids": held})
